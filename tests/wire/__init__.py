"""The real clients of providers against a server that speaks each provider's documented format, on loopback."""

"""The rules, in microseconds and without a server."""

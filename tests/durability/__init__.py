"""What survives: real processes, really killed."""

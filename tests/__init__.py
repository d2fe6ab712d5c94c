"""Facts about Perdure, each a test. `fundamentals/` is the place to begin."""

"""Read these first: one concept a test, nothing faked but the model."""

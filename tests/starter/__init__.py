"""Tests of the client: its commands as a person or a script uses them."""

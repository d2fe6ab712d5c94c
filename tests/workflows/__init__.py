"""Workflows on the real servers."""

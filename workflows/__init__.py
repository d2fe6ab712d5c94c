"""Durable shells around `core`: one file per workflow definition."""

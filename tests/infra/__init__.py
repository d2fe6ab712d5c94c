"""Tests of the adapters to the outside."""

"""Tests of the activities, without a server."""

"""`make demo`: the main job, end to end, on real servers and real data."""

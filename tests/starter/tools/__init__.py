"""The tools of the agents that these tests start."""

"""Pipelines: steps of agents, tools and people, decided purely as agents are."""

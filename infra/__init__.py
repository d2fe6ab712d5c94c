"""Adapters to the outside: Temporal, S3, model providers, logging, the local stack."""

"""The rules: pure functions over frozen models. Nothing here knows Temporal, S3 or a model provider."""

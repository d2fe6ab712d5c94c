"""What may fail and be retried: the model call, the tools, the journal."""

"""What a turn costs, measured against a bare Temporal workflow and against passing the whole conversation."""

"""What a deployment's nodes can carry, and what it costs."""

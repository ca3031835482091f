"""Models, their immutable versions, metrics and aliases."""

"""View models: what a page says, as pure functions of what the registry answered."""

"""The server-rendered status UI. It knows the registry by its contract and its client alone."""

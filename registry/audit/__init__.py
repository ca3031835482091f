"""The audit trail, to be read."""

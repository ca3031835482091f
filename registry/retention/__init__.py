"""What may be deleted, by whom, and the collector of what nothing refers to."""

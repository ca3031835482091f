"""What a node counts and writes down: counter files, Prometheus text, the request log."""

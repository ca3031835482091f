"""Content-addressed objects over S3. The database row decides what exists; the store only holds bytes."""

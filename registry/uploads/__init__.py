"""Uploads: how bytes become blobs. A blob exists once a worker has read and hashed it."""

"""Data sets: versioned, content-addressed."""

"""One page per file: fetch → view model → template."""

"""The lineage graph: what came of what."""

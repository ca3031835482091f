"""Counters become windows, batches of evidence, and the picture of how arms differ."""

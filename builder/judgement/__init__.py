"""How good an engine is, in numbers and in sentences: measures, bounds, gates. Pure."""

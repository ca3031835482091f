"""A leaf: adapters that load a file for a target and run it. Imports `registry.contract` and numpy; each
runtime's own library is imported here and nowhere else in serving, and only when it is used."""

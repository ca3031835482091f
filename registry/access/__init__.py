"""Tokens: who may do what, and who one is."""

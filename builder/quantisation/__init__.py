"""Ranges of tensors and the schemes that round by them. Pure."""

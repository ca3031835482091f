"""Builds and the engines that they make."""

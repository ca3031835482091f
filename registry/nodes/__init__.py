"""Nodes: enrolment, the node protocol, and what nodes report of themselves."""

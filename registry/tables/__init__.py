"""Rows: SQLAlchemy classes named …Row, one file per noun, and the journal through which phases move."""

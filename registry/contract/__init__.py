"""Wire types: what every process may import. Pydantic only; no I/O, no clock.

Changes are additive. Types that people send forbid unknown fields, so that a typo is told; types that
programs exchange ignore them, so that an older reader works with a newer writer.
"""

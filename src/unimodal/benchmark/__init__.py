"""Comparing: what is compared, on what, and what the differences mean."""

"""Seeded wrong and honest results of single ops, and what a verdict says of them."""

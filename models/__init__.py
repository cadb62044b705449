"""Models to sweep: a registry of callables, the laws of their arguments, and the seeded draw of values."""

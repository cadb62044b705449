"""The models that runs use: their registry, the specs of their arguments, and seeded random values."""

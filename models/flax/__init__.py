"""Models in Flax (nnx, linen)."""

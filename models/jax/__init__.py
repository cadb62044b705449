"""Models written in plain `jax.numpy`, one per file; `models.registry` finds them by path."""

"""Models written in plain `jax.numpy`, one per file; `opscope.models.registry` finds them by path."""

"""Equinox: its models become functions of named arrays (`jax_tree`), which JAX lowers."""

from __future__ import annotations

from opscope.models.frontends.jax import Jax

FRONTEND = Jax(
    name="equinox", packages=("jax", "jaxlib", "equinox"), extra="flax", recorded_packages=("jax", "equinox")
)

"""Backends: what takes an op up the ladder. One file each; `base.py` says what one is, `registry.py` finds them."""

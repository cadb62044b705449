"""Backends: compilers with what runs their output, one file each. `base.py` defines them, `registry.py` finds them."""

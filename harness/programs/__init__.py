"""Ops of a compiler's own program: export folders derived from a model by compiling it and taking it apart.

The workflows `compile-split` and `split-compile-split` run these ops.
"""

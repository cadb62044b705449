"""Rows that are not single ops of a model: export folders derived from a model's own.

The workflows `compile-split` and `split-compile-split` run the ops of a compiler's own program, `windows:N` runs pieces
of several ops.
"""

"""Splits a compiled program: each op that computes becomes a program of its own, with its meaning in StableHLO.

The workflows `compile-split` and `split-compile-split` run these.
"""

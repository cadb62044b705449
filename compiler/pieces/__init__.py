"""A compiled program taken apart: each op that computes as a program of its own, and what it means in StableHLO.

The workflows `compile-split` and `split-compile-split` run these.
"""

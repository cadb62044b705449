"""Ops in exact arithmetic: what they compute in float64, and how far the rounding of one of their steps moves them.

Imports NumPy alone, so that goldens of elementwise ops, composites and fused ops need no compiler.
"""

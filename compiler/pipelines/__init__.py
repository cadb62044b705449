"""Passes in order: what each stage runs at each level, strings that name a pipeline, and tt-mlir's names of whole ones.

A pipeline is a string that can be logged and run again with `opscope opt -p`.
"""

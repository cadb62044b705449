"""Translations from MLIR: ttnn to the program that a device loads, TTIR to the Buda graph.

They leave MLIR and so are not passes.
"""

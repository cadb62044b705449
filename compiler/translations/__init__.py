"""Where IR ends: ttnn as the program that a device loads, TTIR as the Buda graph.

Translations leave MLIR and so are no passes.
"""

"""The Buda route: a TTIR program as a graph, balanced, placed onto cores, and written as plan and netlist.

Words, options and formulas are TT-Buda's. It sees frozen dataclasses only, never IR.
"""

"""The Buda route: builds a graph from a TTIR program, balances it, places it on cores, and writes plan and netlist.

Words, options and formulas are TT-Buda's. The route works on frozen dataclasses only, never on IR.
"""

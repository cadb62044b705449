"""The `test-config` of a netlist: how its inputs are drawn, what it computes, and how results are compared.

Nothing here uses the simulator or the compiler's graph: values follow from the file's own text, in NumPy.
"""

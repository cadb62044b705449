"""The verbs of this room: `opscope compile`, `opt`, `plan`, `netlist`, `ops`.

They are entry points of `opscope.commands`, imported only when called.
"""

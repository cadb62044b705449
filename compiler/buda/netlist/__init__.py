"""TT-Buda's netlist: a plan as YAML that people can read and change, and that runs on the device (docs/netlist.md)."""

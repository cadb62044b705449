"""TT-Buda's Python API, for programs that say `import pybuda`: `python -m opscope.pybuda PROGRAM.py` runs one.

Every name is defined in `opscope.simulator.host`, one file per class, and is loaded on first use.
"""

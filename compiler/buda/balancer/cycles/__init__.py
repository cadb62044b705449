"""Estimates the cycles that TT-Buda expects one core to spend on its share of an op.

`weights_*.py` hold the measured constants, `formulas.py` the formulas, `estimate.py` picks the one for an op model.
These estimates reproduce TT-Buda's; the simulator has a physical model of its own (`simulator/timing`).
"""

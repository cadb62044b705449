"""The settings of a run: one table, and where each value comes from.

Command line, environment and `[tool.opscope]` are read here; what a run is asked to do is not (`run/request.py`).
"""

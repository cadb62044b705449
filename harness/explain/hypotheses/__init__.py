"""Hypotheses about a wrong result: one function each, which returns one sentence with numbers where it fits.

A new one is a function `(Evidence) -> str | None` in a file of this folder and a row of `HYPOTHESES`
(harness/explain/hypotheses/table.py). It returns None unless what it predicts is what the device gave.
"""

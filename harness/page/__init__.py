"""The page that ends a run in the terminal, and that `opscope show` prints again.

It reads a run folder and shows; it decides nothing.
"""

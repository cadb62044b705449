"""The page that ends a run in the terminal, and that `opscope show` prints again.

It only reads and shows a run folder.
"""

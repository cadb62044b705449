"""The table of operations: one row per op, one file per group of ops."""

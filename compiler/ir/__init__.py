"""Reads and writes IR: the StableHLO reader, generic text, the shared context."""

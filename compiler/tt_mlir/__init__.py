"""TTNN as tt-mlir itself writes it: read from an executable's text, printed back, and made into a program of ours.

The text is kept as it stands: its ops, layouts, configurations and locations are tt-mlir's choices, not ours.
"""

"""tt-mlir's system descriptor, by which it compiles where no card is: written from a board file, read and verified.

It is a flatbuffer of a schema of tt-mlir's; which fields there are, and where, says one table of our own (`fields.py`).
"""

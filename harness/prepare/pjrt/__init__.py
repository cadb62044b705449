"""PJRT, the interface between frameworks and compilers: jaxlib's client of it, for XLA on the host and for any plugin.

Nothing else of this project knows that client, which is private to jaxlib.
"""

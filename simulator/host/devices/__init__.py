"""Devices: what modules are placed on, and where inputs are pushed to."""

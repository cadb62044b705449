"""Modules: what a device runs. Each wrapper of a framework's model calls the exporter of that framework on it."""

"""Command lines of the simulator: `opscope simulate`."""

"""Programs whose parts share no value, and their walk by several processes."""

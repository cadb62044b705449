"""Several devices that compute together: how values are divided among them, and which device is where."""

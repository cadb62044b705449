"""Models in Equinox."""

"""Scripts that run in Superset's own virtual environment and import only Superset and the standard library."""

"""Small faults in our own source, and whether the quick tests notice them: `python -m ci.mutation --help`."""

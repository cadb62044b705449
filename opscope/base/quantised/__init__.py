"""StableHLO's quantised tensors: their types, their ops spelled out, and importers' plain arithmetic as such types."""

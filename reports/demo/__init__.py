"""`opscope demo`: nights that never were, replayed from real runs of this project and marked as such."""

"""`opscope demo`: invented nights, replayed from recorded runs of this project and marked as demo data."""

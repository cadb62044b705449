"""In and out of IR: the door for StableHLO, generic text, the shared context."""

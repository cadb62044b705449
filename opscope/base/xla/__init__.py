"""XLA, as goldens need it: which releases, with which flags, and with denormals as IEEE 754 has them."""

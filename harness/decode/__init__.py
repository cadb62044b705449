"""Decoders that generate on a backend beside XLA, token after token: how far logits and states drift, and which step of
which state went wrong. `opscope decode` starts it.
"""

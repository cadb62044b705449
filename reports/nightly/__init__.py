"""`opscope nightly`: a night from its configuration to the message in the morning."""

"""Devices as processes: commands as framed JSON, tensors in shared memory, queues of a limited length between them."""

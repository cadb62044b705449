"""Code that all packages share: child processes, atomic writes, digests. It imports no other package of opscope."""

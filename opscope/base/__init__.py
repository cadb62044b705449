"""What every room shares: child processes, files that appear whole, digests. It imports nothing of ours."""

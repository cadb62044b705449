"""`opscope benchmark`: how long inputs take to be pushed, run and popped, in the words of tenstorrent/benchmarking."""

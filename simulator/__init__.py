"""A simulated Tenstorrent card: loads the compiler's flatbuffer, computes in its number formats, counts cycles."""

"""What ttnn's own kernels compute on Blackhole, bit for bit, in exact order: the instructions of the vector unit, the
functions made of them, softmax and norms."""

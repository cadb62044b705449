"""What another build of tt-mlir makes of an op, beside what this compiler makes of it: where each stops, and how their
texts differ. It reads the other one's text as it is printed, and runs nothing but this compiler."""

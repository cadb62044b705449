"""opscope: a test-and-regression harness for ML compilers."""

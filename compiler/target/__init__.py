"""The parts that compiler and device share: the program, its file, boards, number formats. Needs no xDSL or jaxlib."""

"""What compiler and device share: the program, its file, boards and number formats. No xDSL, no jaxlib."""

"""Lines that say what is being done while it takes: of a run, of a command, of make's installation."""

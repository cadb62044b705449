"""What a backend of stage commands is made of: the YAML file's description, and the files of one op."""

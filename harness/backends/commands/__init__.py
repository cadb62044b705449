"""Parts of the backend of stage commands: the description in the YAML file, and the files of one op."""

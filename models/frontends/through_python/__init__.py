"""A user's own Python file: the object it names, and what that object is as a function of named arrays."""

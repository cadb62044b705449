"""Loads a user's own Python file, and turns the model in it into a function of named arrays."""

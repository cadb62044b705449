"""A door for assistants that triage nights: a read-only server of the Model Context Protocol over the results, and
instructions for a repository."""

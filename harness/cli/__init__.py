"""The `opscope` command and the verbs of this room.

Each verb is an entry point, imported only when it is called.
"""

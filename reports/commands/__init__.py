"""The verbs of this room, one module each: click commands that read options, call the room and print.

They are entry points of `opscope.commands`, imported only when called.
"""

"""Child processes: started in a session of their own, watched, and ended with everything that they started.

`call.call` runs one Python function in a child and returns its result; `child.Child` is a child that answers again and
again; `process.Process` is any other program. Whatever happens to a child is an `ending.Ending`. A child dies with the
process that started it. This package imports nothing outside the standard library, and quickly.
"""

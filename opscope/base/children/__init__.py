"""Child processes: each starts in its own session, is watched, and ends together with everything that it started.

`call.call` runs one Python function in a child and returns its result; `child.Child` is a child that answers again and
again; `process.Process` is any other program. The process of a child is a fork of a server that has imported what it
runs (`forked`), a fork of this process where the function is no name (`process.LocalFork`), or a new interpreter.
`ending.Ending` describes how a child ended. A child dies with the process that started it. This package imports only
the standard library, so importing it is fast.
"""

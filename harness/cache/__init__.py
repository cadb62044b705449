"""The folders that runs share: what lies there, under which key, who holds it, and what may go.

A key is made from the sources and versions that decide what is stored; whole folders of sources, never lists of files.
"""

"""The folders that runs share: their contents, keys, locks and clean-up.

A key is computed from the sources and versions that decide the stored value. It covers whole folders of sources, never
lists of files.
"""

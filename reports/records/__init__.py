"""Records in the form that the results database stores: columns derived from fields, nights, fast reading, digests.

terminal.py prints tables and lines for the commands.
"""

"""Records as the results database takes them: columns derived from their fields, nights, quick reading, digests.

What is shown in a terminal shares one module here, too.
"""

"""Expected failures: their files, what a record means in their light, and how the files are kept up to date.

A row names ops, a backend, a stage and a reason; an op that passes against its row is red.
"""

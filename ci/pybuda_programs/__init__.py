"""Which public programs for PyBuda run here: `python -m ci.pybuda_programs DEMOS TESTS --write PAGE`.

Programs are read from checkouts that are given as paths, and run as they are, each in a process of its own. What they
would download stands in `stand_in/`: architectures without trained weights, seeded pictures and tokens.
"""

"""Second authorities on goldens: NumPy in double precision and StableHLO's interpreter, each in a file of its own.

They compute an op's results from its module and inputs where the golden, which is XLA's, is questioned. Whether the
authorities agree is for `harness/lanes/second_opinion.py` to say.
"""

"""Why a number is wrong: the elements that are, what made them, where they lie, and a hypothesis where one fits.

Evaluated for failing ops only, after the verdict, on which nothing here has a say.
"""

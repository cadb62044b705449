"""Attacks on opscope itself: each file is one, with a seed, run by `python -m ci.attacks`.

They only start command lines and read what these leave behind. A new attack is a new file with `attack`,
`SAMPLE` and `FULL`.
"""

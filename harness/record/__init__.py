"""What a run writes down: records, their statuses and stages, the store that reads them back, and the ledger that must
add up.

It imports the standard library, pydantic and `opscope.base` alone, so that whoever reads results needs nothing else.
"""

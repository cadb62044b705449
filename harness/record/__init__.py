"""What a run stores: records, their statuses and stages, the store that reads them back, and the ledger of counts
that must add up.

It imports only the standard library, pydantic and `opscope.base`, so that reading results needs nothing else.
"""

"""The device's time: what an operation, a placed op and an epoch cost in cycles.

`closed_form.py` is the model that a device has by default; `protocol.py` says what another one would have to do.
`operation.py` times operations that no plan places, `epochs.py` those of a plan. Cycles of one core come from
`kernel_cycles.py` and from the constants of the arch.
"""

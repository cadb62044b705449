"""The host of a simulated card, under TT-Buda's names: modules, devices, images and the functions that run them.

It compiles and exports as well, which the device itself does not: no other package of the simulator imports it.
`opscope.pybuda` is the door to it.
"""

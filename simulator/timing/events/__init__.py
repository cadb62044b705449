"""Time by events: cores with three threads, circular buffers, two NoC tori, DRAM channels and Ethernet.

`timed.py` is the model of time that `--timed` asks for; SimPy is imported by it alone, so that a device without it
needs NumPy only. Service times of threads are those of the closed form; what events add is who waits for whom.
"""

"""PyTorch models as programs of TT-Buda: `python -m opscope.pybuda models/demos/bert.py --help`."""

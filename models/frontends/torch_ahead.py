"""What an exporter of PyTorch models is a fork of: PyTorch, and torchax where models take that door."""

import contextlib

from opscope.models.frontends import torch_doors, torch_modules  # noqa: F401 - what is imported ahead
from opscope.models.frontends.base import Refused

with contextlib.suppress(Refused):  # the exporter says it
    if torch_doors.door("") == torch_doors.TORCHAX:
        from opscope.models.frontends import torch_trace  # noqa: F401

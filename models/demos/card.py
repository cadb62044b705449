"""What every demo does: seeded weights, one input through a simulated card, the back end's files in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.base.installing import install_command
from opscope.models.seeding import draw

if TYPE_CHECKING:
    import torch

SEED = 0
LEAST_CORRELATION = 0.97
"""With PyTorch's results: the card computes in bfloat16, through as many as 53 convolutions one after the other."""


def sizes(description: str | None, limits: dict[str, range], **defaults: int) -> argparse.Namespace:
    """Reads the command line: a number for each of `defaults`, at least 1 or within `limits`, and where to write.

    Ends the program with exit code 2 for a wrong number, and where PyTorch is missing.
    """
    parser = argparse.ArgumentParser(description=description)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    parser.add_argument("--arch", choices=("Grayskull", "Wormhole_B0"), default="Wormhole_B0", help="the card")
    parser.add_argument("--output", type=Path, default=Path("tt_build"), help="folder of the back end's files")
    parser.add_argument("--compile-only", action="store_true", help="write the files, and run nothing")
    asked = parser.parse_args()
    for name in defaults:
        allowed = limits.get(name, range(1, 1 << 20))
        if (number := getattr(asked, name)) not in allowed:
            step = f" in steps of {allowed.step}" if allowed.step > 1 else ""
            parser.error(f"--{name}: expected a number from {allowed[0]} to {allowed[-1]}{step}, got {number}")
    if "heads" in asked and asked.hidden % asked.heads:
        parser.error(f"--hidden: expected a multiple of --heads {asked.heads}, got {asked.hidden}")
    lacking = [package for package in ("torch", "torchax") if util.find_spec(package) is None]
    if lacking:
        parser.error(f"{lacking[0]}: expected PyTorch and torchax, got none; try {install_command('torch')}")
    return asked


def seeded(module: torch.nn.Module) -> torch.nn.Module:
    """Gives the module weights that are the same on every machine, and sets eval mode.

    Matrices and filters are normal with a variance of 2 / fan-in, which keeps values in range through ReLUs; scales of
    normalisations stay 1 and biases 0, as PyTorch makes them, since they have no spread that training would not set.
    """
    import torch

    with torch.no_grad():
        for index, (name, parameter) in enumerate(module.named_parameters()):
            if parameter.dim() > 1:
                std = (2 / parameter[0].numel()) ** 0.5
                drawn = draw(f"normal:{std}", tuple(parameter.shape), "float32", SEED, index)
                parameter.copy_(torch.from_numpy(drawn))
            elif name.endswith("bias"):
                parameter.zero_()
    return module.eval()


def on_a_card(name: str, module: torch.nn.Module, inputs: Sequence[Any], asked: argparse.Namespace) -> None:
    """Compiles the module for a card, writes the back end's files, runs it, and compares with PyTorch.

    Ends the program with exit code 1 if the card's numbers are not near PyTorch's.
    """
    import pybuda  # opscope.pybuda, under the name that its command gives it
    import torch

    pybuda.set_configuration_options(backend_output_dir=str(asked.output))
    device = pybuda.TTDevice("tt0", arch=pybuda.BackendDevice[asked.arch])
    device.place_module(pybuda.PyTorchModule(name, module))
    if asked.compile_only:
        device.compile_to_image(img_path=str(asked.output / f"{name}.tti"), training=False, sample_inputs=tuple(inputs))
        print(f"{name}: compiled")
    else:
        got = pybuda.run_inference(inputs=[tuple(inputs)]).get()[0].value().flatten()
        with torch.no_grad():
            expected = module(*inputs).flatten()
        correlation = float(torch.corrcoef(torch.stack([got.float(), expected]))[0, 1])
        print(f"{name}: {len(got)} outputs, correlation with PyTorch {correlation:.4f}")
        if not correlation >= LEAST_CORRELATION:  # also where it is no number
            sys.exit(f"{name}: expected a correlation of at least {LEAST_CORRELATION}, got {correlation}")
    print(f"{name}: files in {asked.output}")


def image(size: int) -> torch.Tensor:
    """One seeded RGB image, normalised."""
    import torch

    return torch.from_numpy(draw("normal:1", (1, 3, size, size), "float32", SEED + 1, 0))

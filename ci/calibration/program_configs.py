"""How a card split an operation, as its row of a profile says: cores, and the blocks of its program configuration."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from opscope.compiler.target.formats import TILE
from opscope.compiler.target.product_blocks import Line, ProductBlocks
from opscope.compiler.target.program import Operation, TensorDesc
from opscope.simulator.timing.work_split import Asked, ConvBlocks, RelayBlocks


def card_split(
    line: Mapping[str, str], asked: Asked, inputs: Sequence[TensorDesc], output: TensorDesc, operation: Operation
) -> Asked:
    """Returns what a row says of the split of its operation, with what the operation's arguments say."""
    config = line["program_config"]
    numbers = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", config)}
    split = replace(asked, cores=int(float(line["cores_card"])))
    grid = re.search(r"grid_size=\(x=(\d+);y=(\d+)\)", config)
    if config.startswith("MinimalMatmulConfig") and grid:
        sizes = (numbers[f"{side}_block_size"] for side in ("M", "K", "N"))
        return replace(split, relay=RelayBlocks((int(grid[2]), int(grid[1])), *sizes))
    if config.startswith("MatmulMultiCoreReuse") and {"per_core_M", "per_core_N", "in0_block_w"} <= numbers.keys():
        return replace(split, product=_product(config, numbers, output, split.cores))
    if config.startswith("Conv2dParallelizationConfig") and len(inputs) > 1:
        return replace(split, conv=_conv(line, numbers, inputs[1]))
    return split


def _product(config: str, numbers: Mapping[str, int], output: TensorDesc, cores: int) -> ProductBlocks:
    along: Line = ""
    if "MultiCast1D" in config:
        along = "left" if numbers.get("mcast_in0") else "right"
    rows, columns = (-(-size // TILE) for size in output.shape[-2:])
    if numbers.get("fuse_batch"):
        rows = math.prod(output.shape[:-2]) * rows
    high, wide = numbers["per_core_M"], numbers["per_core_N"]
    alone = "MultiCast" not in config
    return ProductBlocks(
        (cores, 1) if alone else (-(-rows // high), -(-columns // wide)),
        along,
        high,
        wide,
        numbers.get("out_block_h", high),
        numbers.get("out_block_w", wide),
        numbers["in0_block_w"],
        (max(1, numbers.get("out_subblock_h", 1)), max(1, numbers.get("out_subblock_w", 1))),
        alone,
    )


def _conv(line: Mapping[str, str], numbers: Mapping[str, int], weights: TensorDesc) -> ConvBlocks:
    block = {name: int(value) for name, value in re.findall(r"(\w+_ntiles)=(\d+)", line["attributes"])}
    padded = [int(size) for size in line["in1_padded"].split("x")]
    across, deep = numbers["num_cores_c_out"], max(1, numbers["num_cores_c_in"])
    return ConvBlocks(
        numbers["num_cores_nhw"] * across,
        numbers["per_core_out_matrix_height_ntile"],
        numbers["per_core_out_matrix_width_ntile"],
        -(-padded[-2] // TILE),
        (block.get("out_subblock_h_ntiles", 1), block.get("out_subblock_w_ntiles", 1)),
        deep,
    )

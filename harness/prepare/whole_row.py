"""The row of a model as one program: what `--op-by-op-on-fail` runs first. It is stored with the ops of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.digest import words_digest
from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.cache.export_folder import MODULE, VALUES, WHOLE
from opscope.harness.prepare.inputs import drawn as from_law
from opscope.harness.prepare.own_random_numbers import DRAWS, OWN_NUMBERS
from opscope.harness.prepare.program import Program, SplitModule
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.element_types import save
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, WHOLE_MODEL, OpRow, Source, TensorDesc, Use

DRAWN_MODULE = "drawn.mlirbc"
"""File of the program that returns its draws after its results."""


@dataclass(frozen=True)
class WholeProgram:
    """A model as one program, once its ops are evaluated."""

    split: SplitModule
    results: Sequence[Any]
    """The final outputs of the walk, which equal the whole model's: arrays, or the paths of files with them."""
    distributions: Sequence[str]
    seed: int
    digest: str = ""
    """Names the program."""
    frontend: str = ""
    value_files: Mapping[int, str] = field(default_factory=dict)
    """Argument -> the file of its value, where the user brought it."""
    argument_types: tuple[str, ...] = ()
    """Which arguments stay from run to run."""
    types: tuple[Sequence[TensorDesc], Sequence[TensorDesc]] | None = None
    """The types of arguments and results where the program has only a device's parts of them."""


def write(folder: Path, name: str, whole: WholeProgram) -> None:
    """Writes whole.json and the goldens of the final outputs; a result that lies in a file is moved.

    A result that the walk has no value for leaves the model without goldens.
    """
    split, results = whole.split, whole.results
    program, module, params = split.program, MODULE, {}
    missing = next((value.why for value in results if isinstance(value, Missing)), "")
    if len(results) != len(program.results):
        missing = missing or "the golden evaluation did not evaluate the whole program"
    values = split.values
    inputs, outputs = whole.types or ([values[v] for v in program.arguments], [values[v] for v in program.results])
    only_drawn = all(OWN_NUMBERS in value.why for value in results if isinstance(value, Missing))
    if OWN_NUMBERS in missing and only_drawn and whole.types is None and (drawn := _with_draws(folder)):
        module, params, outputs = DRAWN_MODULE, {DRAWS: str(len(drawn))}, [*outputs, *drawn]
    paths = tuple(f"{VALUES}/whole.{index}.npy" for index in range(len(results)))
    for path, value in zip(paths if not missing else (), results, strict=False):
        if isinstance(value, Path):
            value.replace(folder / path)
        else:
            save(folder / path, value)
    row = OpRow(
        op_id=words_digest(f"{name};{whole.digest};{whole.seed}", digits=16),
        op_name=WHOLE_MODEL,
        module=module,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        op_params={PRODUCTS_IN_A_ROW: str(products_in_a_row(program)), **params},
        sources=tuple(
            Source(kind="captured", path=whole.value_files[index])
            if index in whole.value_files
            else from_law("seeded", distribution, whole.seed, index)
            for index, distribution in enumerate(whole.distributions)
        ),
        golden=() if missing else paths,
        no_golden=missing,
        uses=(Use(model=name, path="main"),),
        provenance=f"seeded:{name}-{whole.digest}:{whole.seed}",
        frontend=whole.frontend,
        argument_types=whole.argument_types,
    )
    (folder / WHOLE).write_text(row.model_dump_json() + "\n", encoding="utf-8")


def _with_draws(folder: Path) -> list[TensorDesc]:
    """Writes the program that also returns what it draws; the types of these results, none where it cannot."""
    from opscope.harness.prepare import mlir
    from opscope.harness.prepare.mlir.drawn import with_draws_returned

    module = mlir.load((folder / MODULE).read_bytes())
    draws = with_draws_returned(module)
    if draws:
        (folder / DRAWN_MODULE).write_bytes(mlir.to_bytecode(module))
    return draws


def products_in_a_row(program: Program) -> int:
    """The most products (matmul, conv) of which each reads what came of the one before; a loop's body counts once."""
    before: dict[int, int] = {}
    for node in program.nodes:
        most = max((before.get(value, 0) for value in node.operands), default=0)
        most += op_family(node.name) in PRODUCTS
        most += max((products_in_a_row(body) for body in node.bodies), default=0)
        before |= dict.fromkeys(node.results, most)
    return max(before.values(), default=0)

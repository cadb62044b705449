"""The row of a model as one program: what `--op-by-op-on-fail` runs first. It is stored with the ops of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscope.base.digest import words_digest
from opscope.base.op_families import PRODUCTS, op_family
from opscope.harness.cache.export_folder import MODULE, VALUES, WHOLE
from opscope.harness.prepare.inputs import drawn
from opscope.harness.prepare.program import Program, SplitModule
from opscope.harness.prepare.walk import Missing
from opscope.harness.record.element_types import save
from opscope.harness.record.records import PRODUCTS_IN_A_ROW, WHOLE_MODEL, OpRow, Source, TensorDesc, Use


def write(
    folder: Path,
    name: str,
    split: SplitModule,
    results: Sequence[Any],
    distributions: Sequence[str],
    seed: int,
    digest: str,
    frontend: str,
    value_files: Mapping[int, str],
    argument_types: tuple[str, ...] = (),
    types: tuple[Sequence[TensorDesc], Sequence[TensorDesc]] | None = None,
) -> None:
    """Writes whole.json and the goldens of the final outputs: `results` of the walk, which equal the whole model's.

    `digest` names the program; `value_files` holds the files of arguments whose values the user brought. A result that
    the walk has no value for leaves the model without goldens; a path is that of its file, which is moved.
    `argument_types` say which arguments stay from run to run, `types` are those of arguments and results where the
    program has only a device's parts of them.
    """
    program = split.program
    missing = next((value.why for value in results if isinstance(value, Missing)), "")
    if len(results) != len(program.results):
        missing = missing or "the walk did not evaluate the whole program"
    values = split.values
    inputs, outputs = types or ([values[v] for v in program.arguments], [values[v] for v in program.results])
    paths = tuple(f"{VALUES}/whole.{index}.npy" for index in range(len(results)))
    for path, value in zip(paths if not missing else (), results, strict=False):
        if isinstance(value, Path):
            value.replace(folder / path)
        else:
            save(folder / path, value)
    row = OpRow(
        op_id=words_digest(f"{name};{digest};{seed}", digits=16),
        op_name=WHOLE_MODEL,
        module=MODULE,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        op_params={PRODUCTS_IN_A_ROW: str(products_in_a_row(program))},
        sources=tuple(
            Source(kind="captured", path=value_files[index])
            if index in value_files
            else drawn("seeded", distribution, seed, index)
            for index, distribution in enumerate(distributions)
        ),
        golden=() if missing else paths,
        no_golden=missing,
        uses=(Use(model=name, path="main"),),
        provenance=f"seeded:{name}-{digest}:{seed}",
        frontend=frontend,
        argument_types=argument_types,
    )
    (folder / WHOLE).write_text(row.model_dump_json() + "\n", encoding="utf-8")


def products_in_a_row(program: Program) -> int:
    """The most products (matmul, conv) of which each reads what came of the one before; a loop's body counts once."""
    before: dict[int, int] = {}
    for node in program.nodes:
        most = max((before.get(value, 0) for value in node.operands), default=0)
        most += op_family(node.name) in PRODUCTS
        most += max((products_in_a_row(body) for body in node.bodies), default=0)
        before |= dict.fromkeys(node.results, most)
    return max(before.values(), default=0)

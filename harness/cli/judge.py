"""`opscope judge FILE|FOLDER`: are results that any harness has stored right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opscope.harness.record.errors import InputError

if TYPE_CHECKING:
    from opscope.harness.judge.stored_results import StoredResult
    from opscope.harness.judge.verdict import Verdict

WHERE = "opscope judge"
MODULES = (".mlir", ".mlirbc", ".stablehlo")


@click.command("judge", short_help="Say whether stored results are right: .npz, .safetensors, folders of .npy.")
@click.argument("place", metavar="[FILE|FOLDER]", type=click.Path(path_type=Path), required=False)
@click.option("--op", "what", default="", metavar="OP", help="tanh, gelu, softmax(axis=-1), or a file of StableHLO.")
@click.option(
    "--target", default="", metavar="WHAT", help="What was promised: ieee (default), bf16, tf32, card:HiFi2, 2 ulp."
)
@click.option("--type", "narrow", default="", metavar="TYPE", help="Type of arrays that NumPy has only bits of: bf16.")
@click.option("--picture", type=click.Path(path_type=Path), metavar="FILE.svg", help="Draw the error over the inputs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a list with an entry a result.")
@click.option("--list", "listed", is_flag=True, help="Print the formulas, their attributes and tails, and end.")
@click.pass_context
def judge_command(
    ctx: click.Context,
    place: Path | None,
    what: str,
    target: str,
    narrow: str,
    picture: Path | None,
    as_json: bool,
    listed: bool,
) -> None:
    """Say whether stored results are right, by how much they are off, and what part of the domain was reached.

    FILE is a .npz or .safetensors file with operands in0, in1, ..., results out0, ... and perhaps golden0, ...; in an
    .npz the texts op, attrs (JSON) and target may stand beside them. FOLDER holds such files, or in0.npy and out0.npy.
    The exit code is 0 if all are right, 1 if one is wrong, 2 if one is undecided or cannot be read.
    """
    if listed:
        _list()
        return
    if place is None:
        raise InputError(WHERE, "a file or a folder of results", "none", "opscope judge result.npz --op tanh")
    from opscope.harness.judge.stored_results import stored_results

    results = list(stored_results(place, narrow))
    if picture is not None and len(results) > 1:
        raise InputError("--picture", "a single result", f"{len(results)} in {place}", "a file of that folder")
    judged = [(each, _verdict(each, what, target, alone=not place.is_dir())) for each in results]
    if as_json:
        from opscope.wire import answer
        from opscope.wire import judge as wire

        answer.print_answer([verdict.named(each.name) for each, verdict in judged], wire.PRINTS, indent=None)
    else:
        _show(judged)
    if picture is not None:
        import numpy as np

        from opscope.harness.judge.picture import picture as drawn

        ((result, verdict),) = judged
        ulp = verdict.ulp[0] if verdict.ulp else np.zeros(0)
        picture.write_text(drawn(ulp, verdict.first_operand, f"{result.name}: {verdict.answer}"), encoding="utf-8")
    codes = {verdict.exit_code for _, verdict in judged}
    ctx.exit(1 if 1 in codes else max(codes))


def _verdict(result: StoredResult, what: str, target: str, alone: bool) -> Verdict:
    """The verdict on a result. What cannot be read or asked is refused where it is `alone`, undecided beside others."""
    from opscope.harness.judge.verdict import Verdict

    try:
        if result.refused is not None:
            raise result.refused
        return _asked(result, what, target)
    except InputError as error:
        if alone:
            raise
        reason = str(error).removeprefix(f"{result.name}: ")
        return Verdict("undecided", reason, "", "", target or "ieee", ())


def _asked(result: StoredResult, what: str, target: str) -> Verdict:
    from opscope.harness.judge.judge import judge

    named = what or result.what
    if named.endswith(MODULES):
        named = Path(named).read_bytes()
    if not named and not result.golden:
        raise InputError(result.name, "an op's name in it, a golden, or --op", "neither", "--op tanh")
    given = result.golden or None
    promised = target or result.texts.get("target", "") or "ieee"
    try:
        return judge(named or None, result.inputs, result.outputs, target=promised, golden=given)
    except InputError as error:
        raise InputError(f"{result.name}: {error.where}", error.expected, error.got, error.hint) from error


def _show(judged: list[tuple[StoredResult, Verdict]]) -> None:
    """Each verdict in some lines; of several a line with their number at the end."""
    for result, verdict in judged:
        click.echo(f"{result.name}: {verdict}")
    if len(judged) > 1:
        answers = [verdict.answer for _, verdict in judged]
        counts = [f"{answers.count(answer)} {answer}" for answer in dict.fromkeys(answers)]
        click.echo(f"{len(judged)} results: {', '.join(counts)}")


def _list() -> None:
    from opscope.harness.formulas.elementwise import CHOICES, FORMULAS
    from opscope.harness.formulas.table import FORMULAS as COMPOSED

    for name, formula in sorted(COMPOSED.items()):
        given = ", ".join(f"{key}={value!r}" for key, value in formula.attributes.items())
        operands = " or ".join(map(str, formula.operands))
        tail = f"; tail: {formula.tail}" if formula.tail else ""
        click.echo(f"{name}({given}): {operands} operand{'s' * (operands != '1')}{tail}")
    click.echo(
        "single ops: " + ", ".join(sorted(each.partition(".")[2] for each in (*FORMULAS, *CHOICES))) + ", matmul"
    )

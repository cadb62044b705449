"""Netlists of TT-Buda's own back end: compiled, run and compared as they ask, or refused as they should be.

The slow test takes all of them (some 20 minutes of one core), or with `OPSCOPE_NETLISTS=40` as many, drawn by a seed.
"""

from __future__ import annotations

import os
import random
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.compiler.buda.netlist.check import for_first_chip
from opscope.compiler.buda.netlist.parse import parse
from opscope.compiler.buda.netlist.to_binary import to_binary
from opscope.compiler.commands.netlist import netlist_command
from opscope.compiler.errors import CompilerInputError
from opscope.compiler.target import binary
from opscope.compiler.tests import netlist_corpus, netlist_templates
from opscope.simulator.api import Device, DeviceError

pytestmark = pytest.mark.skipif(not netlist_corpus.ARCHIVE.exists(), reason=f"there is no {netlist_corpus.ARCHIVE}")

REFUSED = {
    "fused_op_matmul_invalid_m_k_u_kt": "expected m_k 1 and u_kt 4, the blocks of intermed0, got (4, 1)",
    "fused_op_ublock_cannot_fit_into_dest": "expected at most 8 tiles, which half of Dst holds, got 4x3",
    "fused_op_with_bcast_invalid_input": "expected one row of tiles to be repeated from an intermediate",
    "fused_op_with_bcast_invalid_mblock_c": "got intermed0 with mblock [1, 2] and ublock [1, 1] into mblock [2, 2]",
    "fused_op_with_matmul_intermed_input_1": "got input 1 from intermed0",
    "fused_op_with_matmul_invalid_output": "and the result in output",
}
"""Error tests of the back end -> the fault that is in them."""
PASSED = (
    "netlists__netlist_softmax_single_tile_exp_recip",
    "netlist_binary_op.yaml",
    "netlist_reduce_r_dim_max",
    "netlist_datacopy_op_with_16x32_tile_dim",
)
"""One of each: a list of chips, broadcasts and a product of ones, a maximum, tiles of 16 rows."""


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_test_is_refused_for_its_own_fault(name: str) -> None:
    (outcome,) = netlist_corpus.outcomes(f"{name}.yaml")
    assert outcome.result == "refused"
    assert REFUSED[name] in outcome.why


@pytest.mark.parametrize("name", PASSED)
def test_a_netlist_gives_the_numbers_that_it_asks_for(name: str) -> None:
    results = {outcome.name: (outcome.result, outcome.why) for outcome in netlist_corpus.outcomes(name)}
    assert results
    assert set(results.values()) == {("passed", "")}


def test_a_sample_of_small_netlists_passes() -> None:
    """Drawn by a seed: what the slow test finds in all of them, this one finds in some."""
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        small = sorted(
            row.filename
            for row in archive.infolist()
            if "op_tests" in row.filename and "template" not in row.filename and row.file_size < 3000
        )
    chosen = set(random.Random(2).sample(small, 4))
    results = {outcome.name: outcome.result for outcome in netlist_corpus.outcomes(chosen=chosen.__contains__)}
    assert results.keys() == chosen
    assert set(results.values()) == {"passed"}


@pytest.mark.parametrize(
    "name",
    # quick: the other; a softmax's graphs, test_the_command_and_the_compiler_agree_on_a_sample
    [
        "fork_pipe__test_packer_serial_fork_pipe",
        pytest.param("templates__test_softmax", marks=pytest.mark.slow),
    ],
)
def test_a_template_passes_with_values_of_ours(name: str) -> None:
    (outcome,) = netlist_corpus.outcomes_of_templates(name)
    assert (outcome.result, outcome.why) == ("passed", "")


def test_a_reduction_that_leaves_several_tiles_is_refused() -> None:
    """Drawn without regard to what is reduced: the golden's product of its operands ended in a traceback."""
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        (name,) = (name for name in archive.namelist() if "templates__test_softmax" in name)
        text = netlist_templates.filled(archive.read(name).decode(), size=4)
    with pytest.raises(CompilerInputError, match="expected a result of one tile along c, which is reduced, got"):
        to_binary(for_first_chip(parse(text)), parameters={})


def same_verdicts(names: Iterable[str], folder: Path) -> list[str]:
    """Returns the netlists that `opscope netlist` takes and the compiler or the device refuses, or the other way."""
    other = []
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        for name in names:
            text = archive.read(name).decode()
            file = folder / "netlist.yaml"
            file.write_text(text, encoding="utf-8")
            done = CliRunner().invoke(netlist_command, [str(file)])
            try:
                planned = to_binary(for_first_chip(parse(text)), parameters={}).binary
                Device(planned.board, profile="buda").load(binary.write(planned))
                refused = ""
            except (CompilerInputError, DeviceError) as error:
                refused = " ".join(str(error).split())
            message = done.output.removeprefix("Error: ")
            assert done.exit_code in (0, 2), f"{name}: {done.exception!r}"
            if (done.exit_code == 2) != bool(refused) or (refused and refused not in message):
                other.append(f"{name}: {message[-200:]} but {refused or 'compiled'}")
    return other


def test_the_command_and_the_compiler_agree_on_a_sample(tmp_path: Path) -> None:
    """Error tests of the back end, two that only compiling refuses, a view of a ram, and some drawn by a seed."""
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        small = sorted(row.filename for row in archive.infolist() if row.file_size < 4000)
    telling = [
        name for name in small if any(part in name for part in ("error_tests", "softmax_v1", "dram_binary", "graph_2"))
    ]
    assert len(telling) >= 9
    assert same_verdicts(sorted({*telling, *random.Random(3).sample(small, 4)}), tmp_path) == []


@pytest.mark.slow
def test_the_command_and_the_compiler_agree_on_all(tmp_path: Path) -> None:
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".yaml"))
    assert same_verdicts(names, tmp_path) == []


@pytest.mark.slow
def test_most_templates_pass_with_values_of_ours() -> None:
    outcomes = list(netlist_corpus.outcomes_of_templates())
    assert [outcome.name for outcome in outcomes if outcome.result == "exception"] == []
    # With values of ours test_fused_op_all_ops_b0, a chain in LoFi, correlates by 0.986 (0.99 is the limit) since
    # bfloat16 is multiplied as recorded kernels do.
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    assert (passed, len(outcomes)) == (44, 55)


@pytest.mark.slow
def test_no_netlist_ends_in_an_exception() -> None:
    with zipfile.ZipFile(netlist_corpus.ARCHIVE) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".yaml"))
    chosen = set(random.Random(2).sample(names, int(os.environ.get("OPSCOPE_NETLISTS", len(names)))))
    outcomes = list(netlist_corpus.outcomes(chosen=chosen.__contains__))
    assert {outcome.name for outcome in outcomes} == chosen
    assert [outcome.name for outcome in outcomes if outcome.result == "exception"] == []
    asked = [outcome for outcome in outcomes if outcome.asks and not (outcome.is_error_test or outcome.is_template)]
    passed = [outcome for outcome in asked if outcome.result == "passed"]
    assert len(asked) == 332 or len(chosen) < len(names)
    assert len(passed) >= 0.85 * len(asked)

"""Which run a repro line is about: the one it names, the newest that has the op, or a line that says how to get it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opscope.harness.record import store
from opscope.harness.record.errors import InputError
from opscope.harness.run.ops_again import run_of_ops
from opscope.harness.tests import run_folder
from opscope.harness.tests.run_folder import NAMES


def test_the_newest_run_that_has_the_ops(tmp_path: Path) -> None:
    runs = tmp_path / ".opscope" / "runs"
    older, newer = run_folder.write(runs / "older"), run_folder.write(runs / "newer")
    first, second = list(NAMES)[:2]
    manifest = newer / store.MANIFEST_FILE
    manifest.write_text(manifest.read_text().replace(second, "0" * 16))
    os.utime(manifest, (2e9, 2e9))
    assert run_of_ops("", tmp_path, [first]) == newer
    assert run_of_ops("", tmp_path, [second]) == older
    assert run_of_ops("", tmp_path, [second[:5], first]) == older
    assert run_of_ops("", tmp_path, ["feed"]) == newer, "which then says that it has no such op"
    assert run_of_ops(str(older), tmp_path, ["feed"]) == older
    assert run_of_ops("older", tmp_path, ["feed"]) == older
    run_id = store.read_run(newer).run_id
    store.write_run(older, store.read_run(older).model_copy(update={"run_id": "an-older-one"}))
    assert run_of_ops(run_id, tmp_path, ["feed"]) == run_of_ops(f"http://ci:8090/{run_id}", tmp_path, ["feed"]) == newer


def test_a_line_of_another_machine_says_how_to_get_the_op(tmp_path: Path) -> None:
    hint = "try opscope repro 12ab --from DATABASE, or --from http://HOST:PORT of the artifact server of that machine"
    with pytest.raises(InputError, match=f"the address of a run, got gone, of which nothing is here; {hint}"):
        run_of_ops("gone", tmp_path, ["12ab"])
    with pytest.raises(InputError, match=r"no run in .opscope/runs; try --run-dir RUN, or opscope repro 12ab --from"):
        run_of_ops("", tmp_path, ["12ab"])
    with pytest.raises(InputError, match=r"--run-dir: expected an artifact server at http://127.0.0.1:9/gone/"):
        run_of_ops("gone", tmp_path, ["12ab"], "http://127.0.0.1:9")

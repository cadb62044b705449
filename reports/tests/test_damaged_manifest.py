"""A manifest with a line twice: its ledger would not add up, so no command that reads it ends with exit code 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.base import damage
from opscope.harness.cli.main import main
from opscope.harness.record.store import MANIFEST_FILE
from opscope.reports.database.ask import ask
from opscope.reports.tests.sample_run import make_run


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "RUN", "--to", "URL"),
        pytest.param(("show", "RUN"), marks=pytest.mark.slow),
        pytest.param(("report", "RUN"), marks=pytest.mark.slow),
    ],
)
def test_a_line_that_stands_twice_is_said_and_the_exit_code_is_not_0(
    tmp_path: Path, words: tuple[str, ...], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run, url = make_run(tmp_path / "run"), f"sqlite:///{tmp_path}/db.sqlite"
    manifest = run / MANIFEST_FILE
    text = manifest.read_text(encoding="utf-8").splitlines(keepends=True)
    manifest.write_text("".join([*text, text[-1]]), encoding="utf-8")
    damage.forget()
    with pytest.raises(SystemExit) as ended:
        main([word.replace("RUN", str(run)).replace("URL", url) for word in words])
    said = capfd.readouterr().err
    assert ended.value.code == 1, said
    assert f"{MANIFEST_FILE}: damaged (a second row of " in said
    assert "Traceback" not in said
    if words[0] == "publish":
        ((tests, ops),) = ask(url, "SELECT COUNT(*), COUNT(DISTINCT op_id) FROM op_tests").rows
        assert tests == ops > 0

"""The workflows, the units and the crontab are what GitHub, systemd and our own commands take."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SYSTEMD = ROOT / "ci" / "systemd"


def jobs(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(), yaml.CSafeLoader)["jobs"]


def commands() -> list[str]:
    """Every line that calls opscope, out of workflows, units and crontab."""
    lines = [
        line
        for path in WORKFLOWS
        for job in jobs(path).values()
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
    ]
    lines += (SYSTEMD / "opscope-nightly.service").read_text().splitlines()
    lines += [line for line in (SYSTEMD / "crontab").read_text().splitlines() if not line.startswith("#")]
    matches = [re.search(r"(?:^|[\s/=])opscope (\w+ .*)", line.split(">")[0]) for line in lines]
    return [hit[1] for hit in matches if hit]


@pytest.mark.slow  # `make lint` asks the same
def test_github_takes_the_workflows() -> None:
    pytest.importorskip("check_jsonschema", reason="pip install check-jsonschema")
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_in_them_exists() -> None:
    lines_of_workflows = commands()
    assert {line.split()[0] for line in lines_of_workflows} == {"nightly", "gate", "status"}
    verbs = {point.name: point for point in entry_points(group="opscope.commands")}
    for line in lines_of_workflows:
        verb, *words = shlex.split(re.sub(r"\$\{\{.*?\}\}", "1", line))
        options = {option for parameter in verbs[verb].load().params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, line


def test_jobs_need_jobs_and_shards_are_those_of_the_configuration() -> None:
    for path in WORKFLOWS:
        for job in jobs(path).values():
            needs = job.get("needs", [])
            assert set([needs] if isinstance(needs, str) else needs) <= set(jobs(path))
    nightly = jobs(ROOT / ".github" / "workflows" / "nightly.yml")
    shards = yaml.load((ROOT / "ci" / "nightly.yaml").read_text(), yaml.CSafeLoader)["shards"]
    assert nightly["shard"]["strategy"]["matrix"]["shard"] == list(range(1, shards + 1))
    assert any(f"--shard ${{{{ matrix.shard }}}}/{shards}" in step.get("run", "") for step in nightly["shard"]["steps"])
    restored = [step["with"]["key"] for step in nightly["cache"]["steps"] if "restore" in step["uses"]]
    assert restored == [f"opscope-{shard}-${{{{ github.run_id }}}}" for shard in range(1, shards + 1)]


def test_the_projects_own_night_and_owners_can_be_read() -> None:
    from opscope.reports.database.owners import read_owners
    from opscope.reports.nightly.config import read_config

    config = read_config(ROOT / "ci" / "nightly.yaml")
    assert config.owners is not None
    assert len({rule.team for rule in read_owners(ROOT / config.owners)}) > 5


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in ("opscope-nightly.service", "opscope-nightly.timer"):
        text = (SYSTEMD / unit).read_text().replace("/srv/opscope/.venv/bin/opscope", "/bin/true")
        (tmp_path / unit).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
    )
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "opscope-nightly" in line]
    assert complaints == []

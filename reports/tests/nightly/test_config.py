"""A night's configuration: what it says is what runs, and what it cannot say is one line with its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from opscope.harness.record.errors import InputError
from opscope.reports.nightly.config import POLICY, read_config, with_backends, with_commit
from opscope.reports.nightly.night_folder import begin, end, folder_of
from opscope.reports.nightly.sweeps import expected_models, first_command, sweeps

WHOLE = """
name: weekly
zone: Europe/Berlin
by: Mon-Fri 07:00
models: [mnist_mlp, "gcn_c*"]
backends: [reference, "null"]
architectures: [n150, p150]
data_formats: [Bfp8_b, Float16_b]
budget: 1h30m
shards: 2
workers: 3
database: {env: RESULTS}
options: {op-timeout: 30, no_cache: true, inputs: random}
policy: {partial: fail}
notify:
  when: always
  webhook: {url_env: CHAT, template: {text: "{title}"}}
  email: {host: localhost, tls: none, from: a@example.org, to: [b@example.org]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nightly.yaml"
    path.write_text(WHOLE)
    return path


def test_every_sweep_is_of_the_commit_that_the_command_line_names(file: Path, tmp_path: Path) -> None:
    config = read_config(file)
    named = with_commit(config, "a1b2c3", "mine")
    command = " ".join(first_command(sweeps(named)[0], named, tmp_path / "run", None))
    assert "--op-timeout 30.0" in command
    assert "--revision a1b2c3 --branch mine" in command
    assert named.content == config.content
    assert with_commit(config, None, None) == config
    with pytest.raises(InputError, match="--branch: expected a name without spaces, got 'a b'"):
        with_commit(config, None, "a b")


def test_every_combination_is_a_sweep_of_its_own(file: Path, tmp_path: Path) -> None:
    config = read_config(file)
    all_sweeps = sweeps(config)
    run_dirs = {sweep.run_dir(tmp_path, "n") for sweep in all_sweeps}
    assert (len(all_sweeps), len(set(all_sweeps)), len(run_dirs)) == (16, 16, 16)
    assert [sweep.label for sweep in sweeps(config, 2)[:2]] == [
        "reference n150 Bfp8_b shard 2/2",
        "reference n150 Float16_b shard 2/2",
    ]
    assert expected_models(config) == ("mnist_mlp", "gcn_cora")
    command = first_command(all_sweeps[1], config, tmp_path / "run", 90.4)
    for words in (
        ["-n", "3"],
        ["--shard", "2/2"],
        ["--data-format", "Bfp8_b"],
        ["--budget", "90s"],
        ["--no-cache"],
        ["--op-timeout", "30.0"],
        ["--model", "gcn_c*"],
        ["--no-report"],
    ):
        assert any(command[place : place + len(words)] == words for place in range(len(command))), words
    assert config.policy == {**POLICY, "partial": "fail"}


def test_other_backends_take_the_place_of_those_in_the_file(file: Path) -> None:
    config = with_backends(read_config(file), "reference,null")
    assert config.backends == ("reference", "null")
    assert config.content["backends"] == ["reference", "null"], "the night is stored with those that ran"
    assert {sweep.backend for sweep in sweeps(with_backends(config, "xla"))} == {"xla"}
    for names, expected in (("referense", "--backend: expected"), ("xla,xla", "each backend once"), (",", "a backend")):
        with pytest.raises(InputError, match=expected):
            with_backends(config, names)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("modles: [a]", ": expected a key of a night, got `modles`; try models"),
        ("models: []", "models: expected at least one model, got none"),
        ("backends: [referense]", "backends: expected"),
        ("architectures: 4", "architectures: expected a list of texts, got 4"),
        ("shards: 0", "shards: expected a whole number of at least 1, got 0"),
        ("budget: soon", "budget: expected a time with a unit, got 'soon'; try 30m, 90s or 1h30m"),
        ("by: noon", """by: expected an hour, perhaps of some days, got 'noon'; try "07:00" or "Mon-Fri 07:00\""""),
        ("zone: Mars", "zone: expected a time zone, got `Mars`; try Europe/Berlin"),
        ("options: {backend: xla}", "options: expected a setting of a run, got `backend`"),
        ("options: {op_timeout: never}", "options.op_timeout: expected a number of seconds above 0"),
        ("policy: {regression: maybe}", "policy.regression: expected fail or pass, got 'maybe'"),
        ("policy: {regresion: fail}", "policy: expected no_data, regression"),
        ("database: postgresql://u:hush@h/d", "database: expected no password in the file, got a URL with one"),
        ("database: mysql://h/d", "database: expected a SQLite or PostgreSQL URL, got `mysql`"),
        ("notify: {webhook: {}}", "notify.webhook.url_env: expected a text, got nothing"),
        ("notify: {webhook: {url: 'ftp://x'}}", "notify.webhook.url: expected an address of http or https"),
        ("notify: {email: {host: h, from: a, to: [b], tls: yes}}", "notify.email.tls: expected starttls or implicit"),
        ("notify: {when: sometimes}", "notify.when: expected always or change, got 'sometimes'"),
        ("models: [a, a]", "models: expected each text once, got `a` twice"),
        ("models: [", "expected the configuration of a night (YAML)"),
    ],
)
def test_a_bad_value_is_refused_with_its_place(tmp_path: Path, line: str, expected: str) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(line if line.startswith("models") else f"models: [mnist_mlp]\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_config(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_database_comes_from_the_environment(file: Path, tmp_path: Path) -> None:
    config = read_config(file)
    assert config.database_url(tmp_path, None, {"RESULTS": "sqlite:///r.sqlite"}) == "sqlite:///r.sqlite"
    assert config.database_url(tmp_path, "sqlite:///o.sqlite", {}) == "sqlite:///o.sqlite"
    with pytest.raises(InputError, match=r"database: expected a URL in \$RESULTS, got none"):
        config.database_url(tmp_path, None, {})


def test_a_night_that_was_cut_short_goes_on_and_one_that_ended_does_not(file: Path, tmp_path: Path) -> None:
    config = read_config(file)
    first = begin(config, tmp_path, None)
    assert begin(config, tmp_path, None) == first
    file.write_text(WHOLE.replace("shards: 2", "shards: 3"))
    other = begin(read_config(file), tmp_path, datetime(2026, 11, 1, tzinfo=UTC))
    assert (other.shards, other.night_id) == (3, "weekly-20261101-000000")
    assert begin(config, tmp_path, None) == first
    with pytest.raises(InputError, match=r"expected the night of .*another configuration"):
        begin(config, tmp_path, datetime(2026, 11, 1, tzinfo=UTC))
    end(tmp_path, first, {})
    assert folder_of(tmp_path, first).joinpath("ended.json").exists()
    # Within the same second it would be the same night: the start is stated.
    later = begin(config, tmp_path, datetime(2030, 1, 1, tzinfo=UTC))
    assert later.night_id != first.night_id

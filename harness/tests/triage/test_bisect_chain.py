"""A change of a model is found in a chain of three repositories: a pin by a text, and one by a submodule."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.base.tests.each import each
from opscope.harness.cli.main import root as opscope
from opscope.harness.record.errors import InputError
from opscope.harness.tests.own_backend import own_backend
from opscope.harness.tests.triage.runs import binary
from opscope.harness.tests.triage.test_bisect import git
from opscope.harness.triage import revisions
from opscope.harness.triage.reading import read_measure

PATTERN = r'set\(MID_VERSION "(\w+)"\)'
CLIMB = """
if stage is Stage.COMPILE:
    if job.ir_dir is not None:
        (job.ir_dir / "my.mlir").write_text(FUSED if LEVEL < 11 else APART)
    return
a, b = job.inputs
job.outputs, job.ran_on, job.cycles = [a + b], "simulator", 1000 if LEVEL < 11 else 1500
"""
TOP = """
HEAD = "func.func @main(%a: f32, %b: f32) -> f32 {\\n"
FUSED = HEAD + '%0 = "my.fma"(%a, %b) : (f32, f32) -> f32\\nreturn %0 : f32\\n}'
APART = HEAD + '%0 = "my.mul"(%a, %b) : (f32, f32) -> f32\\nreturn %0 : f32\\n}'
"""
BUILD = (
    "echo build >> {log}; ! grep -q broken $OPSCOPE_WORKTREE_MID/state && "
    "cat $OPSCOPE_WORKTREE_DEEP/level.py top.py > built.py"
)


Steps = tuple[tuple[int, int], ...]
ALL: Steps = ((3, 1), (3, 2), (0, 1), (5, 2), (2, 1), (4, 3), (2, 1))


class Chain:
    """Forty commits: 20 of `deep`, 12 of `mid`, whose submodule it is, 8 of `outer`, which pins `mid` by a text.

    `steps`: how many of `deep` and `mid` are between two of `outer`.
    """

    def __init__(self, folder: Path, broken: frozenset[int] = frozenset(), steps: Steps = ALL) -> None:
        self.folder, self.log, self.commits = folder, folder / "builds", []
        for name in ("outer", "mid", "deep"):
            git(folder, "init", "-q", "-b", "main", name)
        (folder / "outer" / "top.py").write_text(own_backend("built", CLIMB, at="host", top=TOP))
        (folder / "m.mlir").write_text(binary("add", "4x4xf32"))
        self.levels, self.mids = itertools.count(), itertools.count()
        self.deep(), self.mid(False), self.outer()
        for deeps, mids in steps:
            for number in range(mids):
                for _ in range(deeps if number == 0 else 0):
                    self.deep()
                self.mid(next(self.mids) in broken)
            self.outer()

    def commit(self, name: str, text: str) -> None:
        git(self.folder / name, "add", "-A")
        git(self.folder / name, "commit", "-qm", text)
        self.commits.append((name, git(self.folder / name, "rev-parse", "HEAD")))

    def head(self, name: str) -> str:
        return git(self.folder / name, "rev-parse", "HEAD")

    def deep(self) -> None:
        level = next(self.levels)
        (self.folder / "deep" / "level.py").write_text(f"LEVEL = {level}\n")
        self.commit("deep", f"level {level}")

    def mid(self, broken: bool) -> None:
        place = self.folder / "mid"
        git(place, "update-index", "--add", "--cacheinfo", f"160000,{self.head('deep')},lib/deep")
        (place / "state").write_text(f"{'broken' if broken else 'fine'} {len(self.commits)}\n")
        git(place, "add", "state")
        git(place, "commit", "-qm", f"mid {len(self.commits)}")
        self.commits.append(("mid", self.head("mid")))

    def outer(self) -> None:
        (self.folder / "outer" / "pins.cmake").write_text(f'set(MID_VERSION "{self.head("mid")}")\n')
        self.commit("outer", f"outer {len(self.commits)}")

    @property
    def pins(self) -> list[str]:
        return [f"mid={self.folder / 'mid'}:pins.cmake:{PATTERN}", f"deep={self.folder / 'deep'}:lib/deep"]

    @property
    def words(self) -> list[str]:
        first = next(commit for name, commit in self.commits if name == "outer")
        words = ["bisect", "--model", str(self.folder / "m.mlir"), "--repo", str(self.folder / "outer")]
        words += ["--good", first, "--bad", "main", "--backend", "built.py", "--build", BUILD.format(log=self.log)]
        return words + [word for pin in self.pins for word in ("--pin", pin)]

    @property
    def guilty(self) -> str:
        return git(self.folder / "deep", "log", "--format=%h", "--grep", "^level 11$")

    @property
    def builds(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_chain_is_one_list_of_commits_in_order(place: Path) -> None:
    chain = Chain(place, steps=ALL[1:4])
    assert len(chain.commits) == 19
    outer = revisions.Repository("", place / "outer")
    flat = revisions.Chain((outer, *map(revisions.read_pin, chain.pins)))
    first = next(number for number, (name, _) in enumerate(chain.commits) if name == "outer")
    states = flat.between(chain.commits[first][1], chain.head("outer"))
    names = ("outer", "mid", "deep")
    assert [(names[state.level], state.commits[state.level]) for state in states] == chain.commits[first:]
    for before, after in itertools.pairwise(states):
        assert [a == b for a, b in zip(before.commits, after.commits, strict=True)].count(False) == 1
    checkouts = revisions.Checkouts(flat, place / "trees")
    try:
        for state in (states[12], states[3], states[-1]):
            checkouts.check_out(state)
            assert state.commits[1] in (checkouts.tree / "pins.cmake").read_text(), "the build takes what it pins"
            deep = Path(checkouts.environment["OPSCOPE_WORKTREE_DEEP"])
            assert deep == Path(checkouts.environment["OPSCOPE_WORKTREE_MID"]) / "lib/deep"
            assert git(deep, "rev-parse", "HEAD") == state.commits[2]
    finally:
        checkouts.remove()
    assert all(git(place / name, "worktree", "list").count("\n") == 0 for name in names)
    assert git(place / "outer", "status", "--porcelain") == "", "the user's checkout stays as it is"


@pytest.mark.slow
def test_the_commit_of_a_chain_with_unbuildable_ones_and_after_a_kill(place: Path) -> None:
    chain = Chain(place, broken=frozenset({4, 5}))
    words = [*chain.words, "--on", "count(my.fma) < 1"]
    command = [sys.executable, "-m", "opscope.harness.cli.main", *words]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=place)
    deadline = time.monotonic() + 300
    while chain.builds < 4 and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert chain.builds == 4, "it was killed in the middle"
    done = CliRunner().invoke(opscope, words)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].startswith(f"deep {chain.guilty} "), done.output
    assert done.output.count("(read before)") == 3
    assert chain.builds <= 8 + 1, "each state is built once, but for the one at which it was killed"
    built = chain.builds
    by_cycles = CliRunner().invoke(opscope, [*chain.words, "--on", "cycles"])
    assert by_cycles.output.splitlines()[-1].startswith(f"deep {chain.guilty} "), by_cycles.output
    assert chain.builds == built, "another measure of what was read"
    for measure, refusal in (
        ("casts", "--bad: expected a revision with another casts than --good"),
        ("count(my.fma) < 5", "--good: expected a revision at which not count(my.fma) < 5"),
        ("temp_bytes", "no temp_bytes"),
    ):
        refused = CliRunner().invoke(opscope, [*chain.words, "--on", measure])
        assert isinstance(refused.exception, InputError | SystemExit), measure
        assert (refused.exit_code != 0, refusal in refused.output + str(refused.exception)) == (True, True), measure
    assert chain.builds == built


def sickly(chain: Chain, fault: str) -> tuple[list[str], Path]:
    """The words of a search, and a file as long as which every build but those of both ends ends by a fault."""
    words, sick = [*chain.words, "--on", "cycles"], chain.folder / "sick"
    sick.write_text("")
    build = words.index("--build") + 1
    words[build] += f" && {{ [ $(wc -l < {chain.log}) -lt 3 ] || [ ! -e {sick} ] || {{ {fault}; }}; }}"
    return words, sick


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("head -c 9 /dev/zero > /dev/full", "No space left on device"),
        ("bash -c 'kill -KILL $$'", "Killed"),
        ("timeout 0.1 sleep 9", "exit code 124"),
    ],
    ids=["full-disk", "killed", "time-limit"],
)
def test_what_the_machine_ended_is_not_kept_and_is_tried_again(place: Path, fault: str, said: str) -> None:
    chain = Chain(place)
    words, sick = sickly(chain, fault)
    done = CliRunner().invoke(opscope, words)
    assert "expected a machine on which revisions can be built and run" in str(done.exception)
    skipped = [line for line in done.output.splitlines() if "skipped" in line]
    assert len(skipped) == 2
    assert all(said in line and line.endswith("(the machine may be at fault) (read twice)") for line in skipped)
    assert (chain.builds, len([*place.glob(".opscope/bisect/*.json")])) == (6, 2), "the two ends alone are kept"
    sick.unlink()
    again = CliRunner().invoke(opscope, words)
    assert again.exit_code == 0, again.output
    assert again.output.splitlines()[-1].startswith(f"deep {chain.guilty} "), again.output
    assert again.output.count("(read before)") == 2


@pytest.mark.slow
def test_a_build_that_was_killed_once_is_built_again_at_once(place: Path) -> None:
    chain = Chain(place)
    words, sick = sickly(chain, f"rm {place / 'sick'}; kill -TERM $$")
    done = CliRunner().invoke(opscope, words)
    assert done.output.splitlines()[-1].startswith(f"deep {chain.guilty} "), done.output
    assert ("skipped" in done.output, done.output.count("(read twice)"), sick.exists()) == (False, 1, False)
    assert chain.builds == len([*place.glob(".opscope/bisect/*.json")]) + 1


@pytest.mark.slow
def test_a_build_that_fails_says_its_last_words_and_is_kept(place: Path) -> None:
    chain = Chain(place)
    words = [*chain.words, "--on", "cycles"]
    words[words.index("--build") + 1] = f"echo build >> {chain.log}; echo 'a.c:3: no such file: [Errno 2]' >&2; exit 3"
    for _ in range(2):
        refused = CliRunner().invoke(opscope, words)
        assert "cannot be built: a.c:3: no such file: [Errno 2]" in refused.output + str(refused.exception)
    assert chain.builds == 1, "the commit is at fault, not the machine"


MEASURED = """
op, kind = ("my.fma" if LEVEL < 2 else "my.mul"), ("l1" if LEVEL < 4 else "dram")
type = f"tensor<4x4xf32, #ttnn_layout<#buffer_type<{kind}>, <width_sharded>>>"
line = '%{0} = "{1}"(%a, %b) <{{rank = {3}}}> : (f32, f32) -> {2}\\n'
if stage is Stage.COMPILE:
    if job.ir_dir is not None:
        ops = [op, *["my.cast"] * (2 if LEVEL < 3 else 3)]
        lines = [line.format(n, name, type, int(LEVEL > 0)) for n, name in enumerate(ops)]
        text = "func.func @main(%a: f32, %b: f32) -> f32 {\\n" + "".join(lines) + "return %0 : f32\\n}"
        (job.ir_dir / "my.mlir").write_text(text)
        (job.ir_dir / "costs.json").write_text('{"memory": {"temp_size_in_bytes": %d}}' % (64 if LEVEL < 5 else 96))
    return
a, b = job.inputs
job.outputs, job.ran_on, job.cycles = [a + b], "simulator", 1000 if LEVEL < 6 else 1500
if LEVEL >= 7:
    job.outputs = [(a + b) * (1 + 2e-7 * (a > 0)).astype("float32")]
if LEVEL >= 8:
    job.outputs = [a - b]
"""


@pytest.mark.slow
def test_each_measure_finds_its_commit_and_no_state_is_read_twice(place: Path) -> None:
    """Nine commits, of which each but the first changes another thing."""
    git(place, "init", "-q", "-b", "main", "mine")
    (place / "m.mlir").write_text(binary("add", "4x4xf32"))
    names = ["first", "attribute", "op", "casts", "layout", "memory", "time", "digits", "wrong"]
    for level, name in enumerate(names):
        top = f"LEVEL = {level}"
        (place / "mine" / "mine.py").write_text(own_backend("mine", MEASURED, at="host", top=top))
        git(place / "mine", "add", "-A")
        git(place / "mine", "commit", "-qm", name)
    words = ["bisect", "--model", str(place / "m.mlir"), "--repo", str(place / "mine"), "--backend", "mine.py"]
    words += ["--good", "main~8"]
    for measure, bad, guilty in (
        ("count(my.fma) < 1", "main", "op"),
        ("count(my.fma)", "main", "op"),
        ("count(my.mul, sharded) == 1", "main", "op"),
        ("count(my.cast, l1 width_sharded) == 0", "main", "layout"),
        ("casts > 2", "main", "casts"),
        ("launches", "main", "casts"),
        ("dispatches >= 4", "main", "casts"),
        ("temp_bytes", "main", "memory"),
        ("cycles > 1200", "main", "time"),
        ("pcc < 0.9", "main", "wrong"),
        ("structure", "main~7", "attribute"),
        ("verdict", "main", "wrong"),
    ):
        done = CliRunner().invoke(opscope, [*words, "--bad", bad, "--on", measure])
        assert done.exit_code == 0, f"{measure}: {done.output} {done.exception}"
        assert done.output.splitlines()[-1].endswith(f" {guilty}"), f"{measure}: {done.output}"
        fresh = [line for line in done.output.splitlines() if "main" in line and "(read before)" not in line]
        assert len(fresh) <= 6, done.output
    assert len([*place.glob(".opscope/bisect/*.json")]) <= len(names)


@pytest.mark.slow
def test_a_merge_is_followed_into_its_branch(place: Path) -> None:
    chain = Chain(place)
    outer = place / "outer"
    git(outer, "checkout", "-qb", "topic", "HEAD~1")
    for number in range(4):
        (outer / "note").write_text(f"{number}\n")
        if number == 2:
            (outer / "top.py").write_text((outer / "top.py").read_text().replace("[a + b]", "[a + b + 1]"))
        chain.commit("outer", f"topic {number}")
    git(outer, "checkout", "-q", "main")
    git(outer, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    words = chain.words
    words[words.index("--good") + 1] = "HEAD~2"
    done = CliRunner().invoke(opscope, words)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-1].endswith("topic 2"), done.output


@each("text", ["", "cycles <", "fusions", "verdict == 1", "cycles < many", "count() < 1", "launches 3"])
def test_measures_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="--on: expected"):
        read_measure(text)


@pytest.mark.parametrize("word", ["mid", "mid=.", "mid=.:", "a b=.:x", "mid=.:file:(", "mid=.:file:no group"])
def test_pins_that_are_none(word: str, place: Path) -> None:
    git(place, "init", "-q")
    with pytest.raises(InputError, match="--pin: expected NAME=REPOSITORY"):
        revisions.read_pin(word)

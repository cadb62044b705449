"""`opscope device system-desc`: a board or a board file becomes a descriptor, or one line says why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from opscope.compiler import api
from opscope.simulator.commands.device_show import device


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(device, ["system-desc", *words])
    return done.exit_code, done.output


def test_a_board_becomes_a_descriptor_for_a_build(tmp_path: Path) -> None:
    file = tmp_path / "made" / "n300.ttsys"
    code, said = run("n300", "-o", str(file), "--for", "jax-tt-plugin==0.1.2")
    assert code == 0, said
    assert said.count("\n") == 1
    assert "n300, wormhole_b0, 2 chips, for jax-tt-plugin==0.1.2" in said
    schema_hash = api.schema_hash_of("jax-tt-plugin", "0.1.2")
    description = api.read_system_desc(file.read_bytes(), file.name, schema_hash)
    assert [chip.arch_name for chip in description.chips] == ["wormhole_b0", "wormhole_b0"]


def test_a_hash_of_a_build_of_ones_own_is_taken(tmp_path: Path) -> None:
    code, said = run("p100", "-o", str(tmp_path / "p100.ttsys"), "--for", "0123456789abcdef" * 4)
    assert code == 0, said
    assert api.read_system_desc((tmp_path / "p100.ttsys").read_bytes(), "p100").schema_hash == "0123456789abcdef" * 4


def test_a_board_file_of_ones_own_is_taken(tmp_path: Path) -> None:
    board = tmp_path / "half.yaml"
    board.write_text("like: n150\nboard: half\nttnn: {l1_bytes: 749568}\n", encoding="utf-8")
    code, said = run(str(board), "-o", str(tmp_path / "half.ttsys"))
    assert code == 0, said
    (chip,) = api.read_system_desc((tmp_path / "half.ttsys").read_bytes(), "half").chips
    assert chip.l1_size == 749568


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n15"], "arch: expected a board or an arch, got 'n15'; try n150"),
        (["e150"], "board e150: expected an arch that tt-mlir knows (wormhole_b0, blackhole), got grayskull; try n150"),
        (["away.yaml"], "away.yaml: expected a readable board file, got: No such file or directory"),
        (["n150", "--for", "jax-tt-plugin"], "--for: expected DISTRIBUTION==VERSION or the 64 hexadecimal digits"),
        (["n150", "--for", "jax-tt-plugin==9"], "jax-tt-plugin 9: expected a build whose descriptor schema is known"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    code, said = run(*words, "-o", str(tmp_path / "x.ttsys"))
    assert (code, said.count("\n")) == (2, 1), said
    assert message in said
    assert not (tmp_path / "x.ttsys").exists()


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = run("n150", "-o", str(tmp_path / "file" / "x.ttsys"))
    assert (code, said.count("\n")) == (2, 1), said
    assert "expected a file that can be written, got: " in said

"""`run_op_by_op` in the kernel of a notebook, as somebody types it there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")
nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
pytest.importorskip("ipykernel", reason="pip install nbclient ipykernel")

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[3] / "docs" / "examples" / "run_op_by_op.ipynb"

LATE = re.compile(r"opscope: \S+: reading which models it holds, for at most \d+ s")
"""What is said of a step that takes longer than some seconds."""

NET = """import jax.numpy as jnp
from opscope import run_op_by_op

x, w = jnp.ones((3, 4)), jnp.ones((4, 2))

def net(x, w):
    return jnp.tanh(x @ w)"""
TORCH = """import torch
from opscope import run_op_by_op

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.tanh(self.linear(x))

run_op_by_op(Net(), torch.ones(3, 4))"""
INTERRUPTED = """import os, signal, threading

def stop(test, seen=[]):
    seen.append(test)
    if len(seen) == 2:
        threading.Timer({seconds}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()

tests = run_op_by_op({model}, no_cache=True, on_test=stop)
print(2 <= len(tests) < {ops}, {{test.status.value for test in tests}})"""


def shown(folder: Path, *cells: str) -> list[list[Any]]:
    """What the cells of a notebook show."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(notebook, kernel_name="python3", timeout=300, resources={})
    client.resources = {"metadata": {"path": str(folder)}}
    client.execute()
    return [cell.outputs for cell in notebook.cells]


def assert_page_of(outputs: list[Any], counts: str) -> None:
    """Progress, and the page of the run as text and as HTML; nothing else."""
    heard = "".join(output.text for output in outputs if output.output_type == "stream")
    assert [line for line in heard.splitlines() if not LATE.fullmatch(line)] == [], "a slow machine says what it does"
    seen = [output.output_type for output in outputs if output.output_type != "stream"]
    assert seen == ["display_data", "execute_result"], "progress, and the page"
    page = outputs[-1]["data"]
    assert counts in page["text/plain"]
    assert page["text/html"].startswith("<pre")
    assert "stablehlo.dot_general" in page["text/html"]


def test_an_answer_is_the_page_of_its_run(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("stages: [{name: compile, command: ['false', '{input}', '{output}']}]\n")
    _, outputs, edited, failing = shown(
        tmp_path,
        NET,
        "run_op_by_op(net, x, w)",
        "def net(x, w):\n    return jnp.sin(x @ w)\n[test.op_name for test in run_op_by_op(net, x, w)]",
        "run_op_by_op(net, x, w, backend='broken.yaml').failures",
    )
    assert_page_of(outputs, "2 unique ops = 2 success")
    assert edited[-1]["data"]["text/plain"] == "['stablehlo.dot_general', 'stablehlo.sine']", "a cell edited is another"
    assert "text/html" in failing[-1]["data"]
    assert "pytest --op-by-op --op" in (text := failing[-1]["data"]["text/plain"])
    assert "op family" not in text, "of failures the failures alone"


def test_a_module_of_pytorch_is_answered_likewise(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'opscope[torch]'")
    (outputs,) = shown(tmp_path, TORCH)
    assert_page_of(outputs, "unique ops = ")


def test_the_notebook_of_the_guides_runs_as_it_stands(tmp_path: Path) -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert len(cells) == 10
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    _, ops, narrow, rows, changed, page = shown(tmp_path, *code)
    assert "3 unique ops = 3 success" in ops[-1]["data"]["text/plain"]
    assert "3 unique ops = " in narrow[-1]["data"]["text/plain"]
    assert "stablehlo.tanh" in rows[-1]["data"]["text/plain"]
    assert {"ADDED", "stablehlo.sine"} <= set(changed[-1]["data"]["text/plain"].split())
    assert page[-1]["text"].strip().endswith("report.html")


@pytest.mark.parametrize("seconds", [0, 0.3])
def test_an_interrupt_gives_what_is_finished(tmp_path: Path, seconds: float) -> None:
    _, outputs = shown(tmp_path, NET, INTERRUPTED.format(model="'mnist_mlp'", ops=24, seconds=seconds))
    assert "True {'success'}" in "".join(output.get("text", "") for output in outputs)


def test_an_interrupt_gives_what_is_finished_of_a_module_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'opscope[torch]'")
    encoder = "torch.nn.TransformerEncoderLayer(8, 2, 16).eval(), torch.ones(4, 2, 8)"
    imports, again = "import torch\nfrom opscope import run_op_by_op", f"run_op_by_op({encoder})"
    interrupted = INTERRUPTED.format(model=encoder, ops=40, seconds=0.1)
    _, outputs, page = shown(tmp_path, imports, interrupted, again)
    assert "True {'success'}" in "".join(output.get("text", "") for output in outputs)
    assert "unique ops = " in page[-1]["data"]["text/plain"], "and the next call runs"

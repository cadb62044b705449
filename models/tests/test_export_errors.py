"""What an export that fails tells in one line: the importer's first own diagnostic, and the user's file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.models.frontends.child import in_one_line
from opscope.models.frontends.torch_mlir_text import first_diagnostic

OPERATOR = '%3 = "torch.operator"(%1) <{name = "onnx.Foo"}> {torch.onnx.alpha = 1.0 : f32} : (!torch.vtensor) -> !torch'
HEAD = "Failure while executing pass pipeline:\n"


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        (
            f'{HEAD}error: "node_1/Foo": failed to legalize operation \'torch.operator\' {OPERATOR}\n note: "n": x',
            "node_1/Foo: failed to legalize onnx.Foo",
        ),
        (
            f"{HEAD}error: \"axis\": failed to legalize operation 'torch.vtensor.literal': %0",
            "axis: failed to legalize torch.vtensor.literal",
        ),
        (
            f"{HEAD}error: unknown: failed to legalize operation 'torch.constant.int': %0 = 2",
            "failed to legalize torch.constant.int",
        ),
        (
            f'{HEAD}error: callsite("net.py":8:0 at callsite("b.py":1:0 at "c.py":42:0)): failed to legalize '
            "operation 'torch.aten.unfold': %1",
            "net.py:8: failed to legalize torch.aten.unfold",
        ),
        (f'{HEAD}error: "a/Pool": inferred types differ\nerror: "b": later', "a/Pool: inferred types differ"),
        ("no diagnostic at all", "no diagnostic at all"),
    ],
)
def test_the_importers_first_diagnostic(text: str, diagnostic: str) -> None:
    assert first_diagnostic(text) == diagnostic


def test_the_users_own_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("def build():\n    return inner()\n\n\ndef inner():\n    return int('seven')\n")
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(ValueError) as caught:
        space["build"]()
    assert in_one_line(caught.value, str(path)).endswith("'seven' (net.py:6)")
    assert "net.py" not in in_one_line(ValueError("elsewhere"), str(path))

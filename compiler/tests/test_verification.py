"""A module is verified after each pass that changes something, however little, and after no other."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from opscope.compiler import api
from opscope.compiler.pipelines import pipeline
from opscope.compiler.pipelines.verification import Verification

TEXT = """func.func @main(%x: tensor<32xf32>) -> tensor<32xf32> {
  %0 = stablehlo.exponential %x : tensor<32xf32>
  return %0 : tensor<32xf32>
}"""


def module() -> ModuleOp:
    return api.stablehlo_to_ttir(TEXT)


class Idle(ModulePass):
    name = "idle"

    def apply(self, ctx, op: ModuleOp) -> None:
        return


class Spoils(ModulePass):
    """Gives an op a property that it does not have, in place."""

    name = "spoils"

    def apply(self, ctx, op: ModuleOp) -> None:
        exp = next(each for each in op.walk() if each.name == "ttir.exp")
        exp.properties["no_such_property"] = IntAttr(1)


def test_what_a_pass_spoils_is_noticed_after_passes_that_do_nothing() -> None:
    with pytest.raises(VerifyException, match="no_such_property") as error:
        pipeline.run((Idle(), Idle(), Spoils(), Idle()), module())
    assert "pass spoils failed" in "".join(error.value.__notes__)


def test_a_module_is_verified_once_per_change(monkeypatch) -> None:
    verified = []
    whole = module()
    monkeypatch.setattr(ModuleOp, "verify", lambda self, *_: verified.append(self))
    verify = Verification()
    for change in (lambda: None, lambda: None, lambda: Spoils().apply(None, whole), lambda: None):
        change()
        verify(whole)
    assert verified == [whole] * 2

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from opscope.harness.record.errors import InputError
from opscope.harness.record.records import OpTest
from opscope.harness.run.api import run_op_by_op
from opscope.harness.triage.diff_tensors import diff_tensors

MODULE = """func.func @main(%a: tensor<3x40xbf16>, %b: tensor<3x40xbf16>) -> tensor<3x40xbf16> {
  %0 = stablehlo.add %a, %b : tensor<3x40xbf16>
  return %0 : tensor<3x40xbf16>
}"""


@pytest.mark.slow
def test_a_run_keeps_the_tensors_of_its_ops(tmp_path):
    (test,) = run_op_by_op(MODULE, dump_tensors="all", run_dir=tmp_path / "run", cache_dir=tmp_path / "cache")
    assert test.status == "success"
    # Three tensors of two tiles of 2,048 bytes; the launch takes longer than so little data and work.
    assert (test.limiter, test.dram_bytes) == ("launch", 3 * 2 * 2048)
    assert test.utilisation is not None
    assert 0 < test.utilisation < 0.01
    old = test.model_dump(mode="json", exclude={"limiter", "utilisation", "dram_bytes", "noc_bytes"})
    assert OpTest.model_validate(old).limiter is None
    folder = tmp_path / "run" / "artifacts" / test.op_id / "tensors-reference"
    index = json.loads((folder / "index.json").read_text())
    read = {
        name: np.load(folder / name).view(np.uint16).astype(np.uint32) << 16
        for name in ("input-0.npy", "input-1.npy", "result-0.npy", "golden-0.npy")
    }
    a, b, result, golden = (array.view(np.float32) for array in read.values())
    np.testing.assert_allclose(golden, a + b, rtol=2**-8)
    np.testing.assert_allclose(result, golden, rtol=2**-7)
    assert index["operations"][0]["results"][0]["element_type"] == "bf16"
    done = CliRunner().invoke(diff_tensors, [str(folder), "--above", "1"])
    assert done.exit_code == 0, done.output
    assert "no difference: 1 tensor, 120 elements" in done.output
    # A verdict that is kept does not take the place of tensors; only failing ops: none here.
    run_op_by_op(MODULE, dump_tensors="failing", run_dir=tmp_path / "again", cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "again").glob("artifacts/*/tensors-*"))


def test_another_word_is_refused(tmp_path):
    with pytest.raises(InputError, match="dump_tensors: expected one of none, failing, all, got 'some'"):
        run_op_by_op(MODULE, dump_tensors="some", run_dir=tmp_path / "run")

"""The options that decide a result: their defaults, what of them records hold, and which words set them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from opscope.harness.record.field_types import Int
from opscope.harness.record.result_options import OPTIONS, Decides, ResultOptions, record_fields

DEFAULTS: dict[str, Any] = {
    "arch": "n150",
    "data_format": None,
    "math_fidelity": None,
    "numerics": "hifi4",
    "exact_order": False,
    "workflow": "split",
    "unsupported_types": "fail",
    "optimization_level": 0,
    "amp_level": 0,
    "backend_option": None,
    "system_desc": None,
    "inputs": "captured",
    "weights": None,
    "shape": None,
    "mesh": None,
    "seed": 0,
    "export_python": None,
    "torch_by": None,
    "goldens_by": None,
    "training": False,
    "dead_ops": False,
    "dtype": "float32",
    "repeat": None,
    "batch_invariance": False,
    "until": None,
}


def test_unset_options_have_their_default() -> None:
    assert ResultOptions().model_dump() == DEFAULTS
    assert ResultOptions.of({"seed": None, "arch": "e150", "reruns": 3}) == ResultOptions(arch="e150")
    assert ResultOptions.of({"seed": 0, "training": False, "amp_level": 1}).model_dump() == DEFAULTS | {"amp_level": 1}
    assert ResultOptions(workflow="full").unsupported_types == "fallback"
    # The default of an option that follows from another is not known before.
    assert {name: option.default for name, option in OPTIONS.items()} == DEFAULTS | {"unsupported_types": None}
    assert all(len(option.help) > 10 for option in OPTIONS.values())


def test_every_option_decides_one_thing() -> None:
    options = ResultOptions(seed=5)
    assert options.values(Decides.CLIMB) == {
        "workflow": "split",
        "repeat": None,
        "batch_invariance": False,
        "until": None,
    }
    assert list(options.values(Decides.PROGRAM)) == [
        *(
            "inputs",
            "weights",
            "shape",
            "mesh",
            "seed",
            "export_python",
            "torch_by",
            "goldens_by",
            "training",
            "dead_ops",
            "dtype",
        )
    ]
    assert options.values(*Decides) == DEFAULTS | {"seed": 5}


def test_a_record_holds_empty_text_for_what_was_not_given() -> None:
    recorded = {
        "arch": "n150",
        "data_format": "",
        "math_fidelity": "",
        "numerics": "hifi4",
        "exact_order": False,
        "workflow": "split",
        "optimization_level": 0,
        "amp_level": 0,
        "backend_option": "",
        "system_desc": "",
        "shape": "",
        "mesh": "",
    }
    assert ResultOptions().recorded() == recorded
    assert {name: default for name, (_, default) in record_fields().items()} == recorded
    assert [kind for kind, _ in record_fields().values()] == [
        str,
        str,
        str,
        str,
        bool,
        str,
        int,
        int,
        str,
        str,
        str,
        str,
    ]
    assert ResultOptions(shape="b=2", amp_level=2).recorded() == recorded | {"shape": "b=2", "amp_level": 2}


def test_the_words_that_set_what_differs() -> None:
    usual = ResultOptions(arch="e150")
    assert ResultOptions(arch="e150").flags(usual) == []
    options = ResultOptions(seed=3, training=True, math_fidelity="lofi", amp_level=2)
    assert options.flags(usual) == [
        "--arch",
        "n150",
        "--math-fidelity",
        "LoFi",
        "--amp-level",
        "2",
        "--seed",
        "3",
        "--training",
    ]
    # What is not given cannot be set back by a word.
    assert ResultOptions().flags(ResultOptions(data_format="Bfp8_b")) == []


def test_a_level_is_0_1_or_2() -> None:
    for level in (0, 1, 2, "1"):
        assert ResultOptions(optimization_level=level).optimization_level == int(level)
    with pytest.raises(ValidationError, match="one of 0, 1, 2"):
        ResultOptions(amp_level=3)


def test_numbers_of_records_have_64_bits() -> None:
    numbers = TypeAdapter(Int)
    for number in (-(2**63), 2**63 - 1):
        assert numbers.validate_python(number) == number
    for number in (-(2**63) - 1, 2**63):
        with pytest.raises(ValidationError):
            numbers.validate_python(number)


def test_an_option_of_a_record_is_not_checked_for_its_words() -> None:
    """A record tells what was once asked for, even if no board has that name any more."""
    from opscope.harness.record.records import OpTest

    assert issubclass(OpTest, BaseModel)
    fields = {name: OpTest.model_fields[name].annotation for name in ("arch", "optimization_level")}
    assert fields == {"arch": str, "optimization_level": int}


def test_options_of_a_compiler_are_sorted_and_belong_to_the_backend_that_they_name() -> None:
    options = ResultOptions(backend_option="tt:b=2,a=1,pjrt:cuda:c=3")
    assert options.backend_option == "a=1,pjrt:cuda:c=3,tt:b=2"
    assert options.of_backend("tt") == {"a": "1", "b": "2"}
    assert options.of_backend("pjrt:cuda") == {"a": "1", "c": "3"}
    assert options.of_backend("tt", alone=False) == {"b": "2"}
    assert ResultOptions(backend_option=["a=1", "b=2"]).backend_option == "a=1,b=2"
    # What names the backend wins over what does not.
    assert ResultOptions(backend_option="a=1,tt:a=2").of_backend("tt") == {"a": "2"}
    for wrong in ("a", "=1", "a=", "a=1,a=2", "tt:=3"):
        with pytest.raises(ValidationError):
            ResultOptions(backend_option=wrong)


def test_a_descriptor_counts_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "half.ttsys"
    file.write_bytes(b"one")
    value = ResultOptions(system_desc=str(file)).system_desc
    assert value is not None
    path, _, digest = value.partition("@")
    assert path == str(file)
    assert len(digest) == 16
    assert ResultOptions(system_desc=value).system_desc == value
    assert ResultOptions(system_desc=value).recorded()["system_desc"] == f"half.ttsys@{digest}"
    # Where it lies decides nothing.
    assert ResultOptions(system_desc=value).decisive(Decides.COMPILATION)["system_desc"] == digest
    file.write_bytes(b"another")
    with pytest.raises(ValidationError, match=digest):
        ResultOptions(system_desc=value)
    file.unlink()  # a run from another machine, whose file is not here, can still be read
    assert ResultOptions(system_desc=value).system_desc == value
    with pytest.raises(ValidationError, match="No such file"):
        ResultOptions(system_desc=str(file))

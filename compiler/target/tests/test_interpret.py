from __future__ import annotations

import pytest

from opscope.compiler.target.host_program import HostProgram, Instruction, Operand, QueueSettings
from opscope.compiler.target.interpret import Allocation, Execution, HostProgramError, check_program, executions, steps

POINTER = Operand("$lptr_q0")
PROGRAM = HostProgram(
    "run_fwd_0",
    (
        Instruction("param", ("$p_loop_count",)),
        Instruction("staticvar", ("$lptr_q0",), (Operand(),)),
        Instruction("loop", operands=(Operand("$p_loop_count"),)),
        Instruction("allocate_queue", ("e2e",)),
        Instruction("execute", graph="fwd_0_0", settings=(QueueSettings("x", ("rd_ptr_local",), (POINTER,)),)),
        Instruction("deallocate_queue", ("e2e",)),
        Instruction("varinst", ("$lptr_q0", "incwrap"), (Operand("", 1), Operand("", 4))),
        Instruction("endloop"),
        Instruction("endprogram"),
        Instruction("execute", graph="never"),
    ),
)


def test_a_static_variable_lives_from_call_to_call() -> None:
    statics: dict[str, int] = {}
    for expected in ([0, 1, 2], [3, 0, 1], [2, 3, 0]):
        made = executions(PROGRAM, {"p_loop_count": 3}, statics)
        assert [step.queue_settings["x"]["rd_ptr_local"] for step in made] == expected
    assert [step.queue_settings["x"]["rd_ptr_local"] for step in executions(PROGRAM)] == [0]


def test_allocations_are_steps_too() -> None:
    assert list(steps(PROGRAM)) == [
        Allocation(("e2e",), freed=False),
        Execution("fwd_0_0", {"x": {"rd_ptr_local": 0}}),
        Allocation(("e2e",), freed=True),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (Instruction("fork"), r"programs.run\[0\]: expected allocate_queue, .*, got 'fork'"),
        (Instruction("loop"), r"programs.run\[0\]: expected an endloop"),
        (Instruction("endloop"), r"programs.run\[0\]: expected a loop before"),
        (Instruction("var", ("$a", "$b"), (Operand(),)), "expected a start value for each of 2 variables"),
        (Instruction("varinst", ("$a",), (Operand(),)), r"expected \[variable, set"),
        (Instruction("varinst", ("$a", "set"), ()), r"expected \[variable, set"),
        (Instruction("execute", settings=(QueueSettings("x", ("zero",), ()),)), "expected a value for each setting"),
    ],
)
def test_what_no_compiler_writes_is_one_typed_error(line: Instruction, message: str) -> None:
    with pytest.raises(HostProgramError, match=message):
        list(steps(HostProgram("run", (line,))))
    if line.code in ("fork", "loop", "endloop"):
        with pytest.raises(HostProgramError, match=message):
            check_program(HostProgram("run", (line,)))

"""Control flow: kernels that call programs. The host reads each predicate back and launches the chosen program."""

from __future__ import annotations

from opscope.compiler.target.program import ControlParams
from opscope.simulator.kernels.registry import Call, Images, kernel


@kernel("if", ControlParams, unit="control", arity=(1, 1024))
def if_(images: Images, call: Call) -> Images:
    """The first program if the predicate is not 0, else the second; both take the inputs after the predicate."""
    predicate, *rest = images
    return call.bodies[0 if predicate.reshape(()) != 0 else 1](*rest)


@kernel("case", ControlParams, unit="control", arity=(1, 1024))
def case(images: Images, call: Call) -> Images:
    """The program of that number; the last one if there is none of that number."""
    index, *rest = images
    number, last = int(index.reshape(())), len(call.bodies) - 1
    return call.bodies[number if 0 <= number <= last else last](*rest)


@kernel("load_cached", ControlParams, unit="control", arity=(0, 1024))
def load_cached(images: Images, call: Call) -> Images:
    """The program's results for these inputs; the device runs it only once for equal inputs."""
    return call.bodies[0](*images)


@kernel("while", ControlParams, unit="control", arity=(1, 1024))
def while_(images: Images, call: Call) -> Images:
    """The body as long as the condition is not 0; values that both only read come last."""
    condition, body = call.bodies
    count = len(call.outputs)
    state, outside = images[:count], images[count:]
    while condition(*state, *outside)[0].reshape(()) != 0:
        state = body(*state, *outside)
    return state


@kernel("for", ControlParams, unit="control", arity=(3, 1024))
def for_(images: Images, call: Call) -> Images:
    """The program once for each number from the first input to before the second, in steps of the third.

    The values that go round come next, and last those that the program only reads. Nothing is read back on the way.
    """
    initial, limit, step = (int(image.reshape(())) for image in images[:3])
    if step < 1:
        raise ValueError(f"a step of at least 1, got {step}")
    count = len(call.outputs)
    state, outside = images[3 : 3 + count], images[3 + count :]
    for _ in range(initial, limit, step):
        state = call.bodies[0](*state, *outside)
    return state

"""Devices as processes: a pipeline of two whose child is killed, what stays in one process, what crosses over."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from opscope import pybuda
from opscope.base import shared_arrays
from opscope.base.children.child import Child
from opscope.base.children.ending import ChildEnded
from opscope.base.shared_block import MappedBlock, SharedBlock
from opscope.simulator.host import session as sessions
from opscope.simulator.host.errors import DeviceDied, PyBudaError
from opscope.simulator.host.processes.signs_of_life import VARIABLE, answer_of, silence_allowed
from opscope.simulator.host.tests.layers import WORMHOLE, Layer, X, layer, near


def named_memory(pids: Iterable[int]) -> set[str]:
    """Files of /dev/shm that these processes map or have open. Others there are those of programs beside this one."""
    paths: set[str] = set()
    for process in (Path(f"/proc/{pid}") for pid in pids):
        paths |= {line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines()}
        for descriptor in (process / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                paths.add(str(descriptor.readlink()))
    return {path for path in paths if path.startswith("/dev/shm/") and Path(path).exists()}


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the latter where it ends between opening and reading
        return False
    return state not in "ZX"


def numbered(number: int) -> np.ndarray:
    """An input whose output differs from all others."""
    return X * np.float32(1 / (1 + number))


def pipeline_with_a_death(count: int, killed: int, victim: int) -> None:
    """Pushes `count` inputs through two cards, and kills the process of one once `killed` outputs are there."""
    before = named_memory([os.getpid()])
    devices = [pybuda.TTDevice(f"tt{i}", arch=WORMHOLE, module=Layer(f"layer{i}")) for i in range(2)]
    sample = [numbered(0)]
    devices[0].push_to_inputs(sample)
    expected_first = pybuda.run_inference(_sequential=True).get()[0].value()
    between: queue.Queue[Any] = queue.Queue()
    outputs = pybuda.initialize_pipeline(False, sample_inputs=sample, d2d_fwd_queues=[between])
    pybuda.run_forward(0)
    pids: list[int] = []
    named: set[str] = set()
    refused: list[PyBudaError] = []

    def push() -> None:
        try:
            for number in range(count):
                devices[0].push_to_inputs(numbered(number))
        except PyBudaError as error:
            refused.append(error)

    pushing = threading.Thread(target=push)
    pushing.start()
    got: list[np.ndarray] = []
    with pytest.raises(DeviceDied) as died:  # noqa: PT012
        while True:
            got.append(outputs.get(timeout=60)[0].value())
            if len(got) == killed:
                pids = [device.process.pid for device in devices if device.process is not None]
                named = named_memory([os.getpid(), *pids]) - before
                os.kill(pids[victim], signal.SIGKILL)
                at = time.monotonic()
    assert time.monotonic() - at < 30, "well before the limit of the queue"
    assert str(died.value) == (
        f"tt{victim}: expected its process, {pids[victim]}, to run, got: killed by SIGKILL; try to run it again"
    )
    assert (died.value.device, died.value.ending) == (f"tt{victim}", "signal SIGKILL")
    pushing.join(60)
    assert not pushing.is_alive()  # it has got the error, and does not wait for ever
    assert [type(error) for error in refused] == [DeviceDied]
    assert pybuda.error_raised()

    # What came out before is there once and in order: each equals what one process computes of that input.
    assert killed <= len(got) < count
    assert between.qsize() == len(got) if victim == 0 else between.qsize() >= len(got)
    pybuda.shutdown()
    assert not any(map(lives, pids))
    assert not any(Path(path).exists() for path in named)
    devices = [pybuda.TTDevice(f"again{i}", arch=WORMHOLE, module=Layer(f"layer{i}")) for i in range(2)]
    assert np.array_equal(got[0], expected_first)
    for number, value in enumerate(got):
        devices[0].push_to_inputs(numbered(number))
        assert np.array_equal(pybuda.run_inference(_sequential=True).get()[0].value(), value), number


def test_a_killed_process_loses_no_output_and_leaves_nothing() -> None:
    pipeline_with_a_death(1000, 8, victim=0)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_is_killed_in_the_middle_of_a_thousand_inputs(victim: int) -> None:
    pipeline_with_a_death(1000, 500, victim)


class Wide(pybuda.PyBudaModule):
    def forward(self, x: Any) -> Any:
        return pybuda.op.Concatenate("wide", x, x, axis=-1)


def test_processes_have_new_weights_grow_their_memory_and_start_again() -> None:
    module = Layer("one")
    card = pybuda.TTDevice("tt0", arch=WORMHOLE, module=module)
    other = pybuda.TTDevice("tt1", arch=WORMHOLE, module=Wide("wide"))
    big = np.concatenate([X] * 4, axis=-2)
    outputs = pybuda.run_inference(inputs=[big, big], input_count=2)
    first = [outputs.get()[0].value() for _ in range(2)]
    assert np.array_equal(first[0], first[1])
    assert first[0].shape == (1, 1, 128, 128)
    assert near(first[0][..., :64], layer(module.weights, module.bias, big))
    pids = [device.process.pid for device in (card, other) if device.process is not None]
    assert len({*pids, os.getpid()}) == 3
    # The same processes go on, with other weights.
    pybuda.update_device_parameters(card, [{"one.weights": np.zeros((64, 64), np.float32)}])
    (second,) = pybuda.run_inference(inputs=[big]).get()
    half = np.broadcast_to(np.tanh(module.bias.value()), (1, 1, 128, 64))
    assert near(second, np.concatenate([half, half], axis=-1))
    assert [device.process.pid for device in (card, other) if device.process is not None] == pids
    # A process that ends between two runs is reported once; then there is another.
    os.kill(pids[1], signal.SIGKILL)  # the process of a caller that ignores SIGTERM does too
    with pytest.raises(DeviceDied, match=f"tt1: expected its process, {pids[1]}, to run, got: killed by SIGKILL"):  # noqa: PT012
        for _ in range(3000):  # a busy machine takes its time to end it
            time.sleep(0.01)
            pybuda.run_inference()
    pybuda.run_inference(inputs=[big])
    assert other.process is not None
    assert other.process.pid != pids[1]
    # One that ends while a run waits for inputs, which nobody reads, too.
    pybuda.run_inference()
    os.kill(other.process.pid, signal.SIGKILL)
    while sessions.session().pipeline.failure is None:
        time.sleep(0.01)
    with pytest.raises(DeviceDied, match="tt1: "):
        pybuda.run_inference()
    pybuda.run_inference(inputs=[big]).get()
    # In one process there is none.
    pybuda.run_inference(inputs=[big], _sequential=True)
    assert card.process is other.process is None
    assert not any(map(lives, pids))


@pytest.mark.parametrize("anonymous", [True, False])
def test_tensors_of_every_kind_cross_and_memory_without_a_name_is_gone(anonymous: bool) -> None:
    arrays = [
        np.arange(6, dtype=np.int8).reshape(2, 3),
        np.asarray(np.float32(2.5)),
        np.zeros((0, 4), np.float32),
        np.asarray([1.5, -2], ml_dtypes.bfloat16),
        np.asarray([True, False]),
        np.arange(100_000, dtype=np.int64)[::2],
    ]
    with SharedBlock(anonymous) as block:
        path, mapped = Path(block.path), MappedBlock()
        for some in (arrays[:2], arrays, arrays[3:]):
            for got, wanted in zip(shared_arrays.read(shared_arrays.write(some, block), mapped), some, strict=True):
                assert got.dtype == wanted.dtype
                assert np.array_equal(got, wanted)
        assert path.exists()
        mapped.close()
    assert not path.exists()


def test_a_process_that_hangs_is_ended_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped by a signal, it neither computes nor ends; its program would wait for ever."""
    monkeypatch.setenv(VARIABLE, "1")
    card = pybuda.TTDevice("tt0", arch=WORMHOLE, module=Layer("one"))
    outputs = pybuda.initialize_pipeline(False, sample_inputs=[X])
    card.push_to_inputs(X)
    pybuda.run_forward(1)
    outputs.get(timeout=60)
    assert card.process is not None
    pid = card.process.pid
    os.kill(pid, signal.SIGSTOP)
    at = time.monotonic()
    card.push_to_inputs(X)
    pybuda.run_forward(1)
    with pytest.raises(DeviceDied) as died:
        outputs.get(timeout=60)
    assert time.monotonic() - at < 30, "well before the limit of the queue"
    assert str(died.value) == (
        f"tt0: expected a sign of its process, {pid}, within 1 s, got none; it was ended; try to run it again, or a "
        "larger OPSCOPE_DEVICE_SILENCE"
    )
    assert died.value.ending == "hang"
    assert not lives(pid)


@pytest.mark.slow
def test_a_process_that_works_for_long_is_no_hang() -> None:
    """It works for longer than it may be silent: with signs it answers, without them it is late."""
    with Child("opscope.simulator.host.tests.slow_child:serve") as child:
        child.send({"seconds": 0, "signs": True})  # the process has started
        assert answer_of(child, 60) == {"slept": 0}
        child.send({"seconds": 1.2, "signs": True})
        assert answer_of(child, 1) == {"slept": 1.2}
        child.send({"seconds": 1.6, "signs": False})
        with pytest.raises(ChildEnded, match=r"no answer within 0\.5 s"):
            answer_of(child, 1)


@pytest.mark.parametrize("text", ["soon", "-1", "0.5", "inf", "nan"])
def test_a_bad_limit_of_silence_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(PyBudaError, match=f"OPSCOPE_DEVICE_SILENCE: expected seconds from 1, .*, got '{text}'"):
        silence_allowed()
    monkeypatch.setenv(VARIABLE, "0")
    assert silence_allowed() is None


def trained(sequential: bool, killed_at: int = -1) -> tuple[dict[str, np.ndarray], list[np.ndarray]]:
    """Weights and losses of three steps of two microbatches; at one its process is killed, and the pass repeated."""
    optimizer = pybuda.optimizers.AdamW(learning_rate=0.01, device_params=True)
    card = pybuda.TTDevice("tt0", arch=WORMHOLE, optimizer=optimizer, module=Layer("one"))
    card.place_loss_module(pybuda.op.loss.L1Loss("loss"))
    pybuda.initialize_pipeline(training=True, sample_inputs=[X], sample_targets=[np.zeros_like(X)])
    losses = pybuda.get_loss_queue()
    for step in range(3):
        for number in range(2):
            card.push_to_inputs(numbered(number))
            card.push_to_target_inputs(np.zeros_like(X))
        pybuda.run_forward(input_count=2, _sequential=sequential)
        assert (card.process is None) == sequential
        if step == killed_at:
            assert card.process is not None
            os.kill(card.process.pid, signal.SIGKILL)
            with pytest.raises(DeviceDied, match=r"tt0: expected its process, \d+, to run, got: killed by SIGKILL"):
                pybuda.run_backward(input_count=2, zero_grad=True, _sequential=sequential)
            assert card.process is None
        pybuda.run_backward(input_count=2, zero_grad=True, _sequential=sequential)
        pybuda.run_optimizer(_sequential=sequential)
    weights = {name: np.array(value) for name, value in card.get_parameter_checkpoint().items()}
    values = [losses.get().value() for _ in range(6)]
    pybuda.pybuda_reset()
    return weights, values


@pytest.mark.slow
def test_training_in_a_process_gives_the_bits_of_one_and_survives_its_death() -> None:
    expected, losses = trained(sequential=True)
    for killed_at in (-1, 1):
        weights, others = trained(sequential=False, killed_at=killed_at)
        assert expected.keys() == weights.keys()
        assert all(np.array_equal(expected[name], weights[name]) for name in expected)
        assert all(map(np.array_equal, losses, others))
    assert losses[-1].item() < losses[0].item()


def gradients_of_two_cards(killed: bool) -> dict[str, np.ndarray]:
    """Gradients of microbatches 0 and 2; if `killed`, the second card's process dies before microbatch 1."""
    cards = [
        pybuda.TTDevice(
            f"tt{i}", arch=WORMHOLE, optimizer=pybuda.optimizers.SGD(0.1, device_params=True), module=Layer(f"layer{i}")
        )
        for i in range(2)
    ]
    cards[1].place_loss_module(pybuda.op.loss.L1Loss("loss"))
    goal = np.zeros_like(X)
    pybuda.initialize_pipeline(training=True, sample_inputs=[X], sample_targets=[goal])

    def microbatch(number: int) -> None:
        cards[0].push_to_inputs(numbered(number))
        cards[1].push_to_target_inputs(goal)
        pybuda.run_forward(input_count=1)

    microbatch(0)
    if killed:
        assert cards[1].process is not None
        os.kill(cards[1].process.pid, signal.SIGKILL)
        with pytest.raises(DeviceDied, match="tt1: expected its process"):
            microbatch(1)
    microbatch(2)
    pybuda.run_backward(input_count=2, zero_grad=True)
    gradients = {name: np.array(value) for card in pybuda.get_parameter_gradients() for name, value in card.items()}
    pybuda.pybuda_reset()
    return gradients


@pytest.mark.slow
def test_a_microbatch_that_fails_on_one_card_has_run_on_none() -> None:
    """Else the first card would go back with it where the second goes back with the next one."""
    expected, others = (gradients_of_two_cards(killed) for killed in (False, True))
    assert len(expected) == 4
    assert all(np.array_equal(expected[name], others[name]) for name in expected)

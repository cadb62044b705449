"""Frames: whole however they are cut, and garbage is told from what came before it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.base.children.frames import LIMIT, Decoder, ProtocolError, encode

MESSAGES = [{"a": 1}, {"text": "é\n\0"}, {}, {"big": "x" * 70_000}]


@settings(deadline=None)  # the machine may be busy with something else
@given(st.integers(1, 5000))
def test_frames_survive_any_cut(step):
    stream = b"".join(map(encode, MESSAGES))
    decoder = Decoder()
    found = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
    assert found == MESSAGES


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello",
        b"\0\0\0\4null",
        b"OPSX",
        b"OPSC\0\0\0\4[1]x",
        b"OPSC\0\0\0\3[1]",
        b"OPSC" + struct.pack(">I", LIMIT + 1),
    ],
)
def test_garbage_is_refused_after_the_frames_before_it(garbage):
    frames = Decoder().feed(encode({"a": 1}) + garbage)
    assert next(frames) == {"a": 1}
    with pytest.raises(ProtocolError):
        next(frames)


def test_half_a_frame_is_no_frame():
    assert list(Decoder().feed(encode({"a": 1})[:-1])) == []

"""Frames: whole however they are cut, and garbage does not spoil what came before it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.base.children import frames
from opscope.base.children.frames import LIMIT, Decoder, ProtocolError, encode, new_token
from opscope.base.tests.each import each
from opscope.base.tests.unhurried import UNHURRIED

MESSAGES = [
    {"a": 1},
    {"text": "é\n\0"},
    {},
    {"big": "x" * 70_000},
    {"b": "\n", "text": '{"c": "\\n"}\n'},
    {"text": "", "a": 1},
    {"text": None},
    {"text": "\ud800"},
]


@UNHURRIED
@given(st.integers(1, 5000))
def test_frames_survive_any_cut(step):
    stream = b"".join(map(encode, MESSAGES))
    decoder = Decoder()
    frames_in = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
    assert frames_in == MESSAGES


@each(
    "garbage",
    [
        b"hello",
        b"\0\0\0\4null",
        b"OPSX",
        b"OPSC\0\0\0\4[1]x",
        b"OPSC\0\0\0\3[1]",
        b"OPSC\0\0\0\5[1]\nx",
        b"OPSC\0\0\0\4{}\n\xff",
        b"OPSC" + struct.pack(">I", LIMIT + 1),
    ],
)
def test_garbage_is_refused_after_the_frames_before_it(garbage):
    frames = Decoder().feed(encode({"a": 1}) + garbage)
    assert next(frames) == {"a": 1}
    with pytest.raises(ProtocolError):
        next(frames)


def test_a_frame_of_another_child_is_garbage():
    token, other = new_token(), new_token()
    assert list(Decoder(token).feed(encode({"a": 1}, token))) == [{"a": 1}]
    with pytest.raises(ProtocolError, match="the token of this child"):
        list(Decoder(token).feed(encode({"a": 1}, other)))


def test_a_message_that_is_too_long_is_refused_where_it_is_sent(monkeypatch):
    monkeypatch.setattr(frames, "LIMIT", 1000)
    encode({"a": "x" * 900})
    with pytest.raises(ProtocolError, match="at most"):
        encode({"a": "x" * 1000})


def test_half_a_frame_is_no_frame():
    assert list(Decoder().feed(encode({"a": 1})[:-1])) == []

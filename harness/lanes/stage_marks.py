"""Which stages the op in flight has begun, and when: memory that a lane's child shares with the lane, for the record in
case the child ends. A message for each would wake the lane four times in an op.
"""

from __future__ import annotations

import mmap
import os
import struct

from opscope.base.shared_block import MappedBlock, SharedBlock
from opscope.harness.record.stages import Stage

_OP = struct.Struct("<QI")
"""The number of the op in flight, and how many stages it has begun."""
_MARK = struct.Struct("<dB")
"""When a stage began (time.monotonic), and the bytes of its name, which follow."""
_MOST = 1 << 16
_SEEN = 1 << 11
"""So many bytes of marks are looked at before a message is read: some thirty stages."""


class Marks:
    """The child's side, which writes."""

    def __init__(self) -> None:
        """Raises OSError if there is no memory or no descriptor left."""
        block = SharedBlock()
        self._memory, self._process = block.reserve(_MOST), os.getpid()
        block.seal()  # what a backend writes to descriptors at random is no mark
        self.place = (block.path, block.size)
        """What the lane finds it by."""
        self._block = block
        self._op, self._count, self._end = 0, 0, _OP.size

    def begin(self, op: int) -> None:
        """An op of a number begins."""
        self._op, self._count, self._end = op, 0, _OP.size
        _OP.pack_into(self._memory, 0, op, 0)

    def enter(self, stage: Stage, now: float) -> None:
        """It begins a stage. A fork of this process says nothing."""
        name = stage.value.encode()[:255]
        end = self._end + _MARK.size + len(name)
        if os.getpid() != self._process or end > _MOST:
            return
        _MARK.pack_into(self._memory, self._end, now, len(name))
        self._memory[self._end + _MARK.size : end] = name
        self._count, self._end = self._count + 1, end
        _OP.pack_into(self._memory, 0, self._op, self._count)

    def close(self) -> None:
        """Gives the memory back."""
        self._block.close()


class SeenMarks:
    """The lane's side: its child's marks, which stay when the child has ended."""

    def __init__(self) -> None:
        self._block = MappedBlock()
        self._memory: mmap.mmap | bytes = b""
        self._before = b""

    def of(self, path: str, size: int) -> None:
        """Looks at those of another child from now on. Raises OSError or ValueError if it has none."""
        self.close()
        self._memory = self._block.at(path, size)

    def look(self) -> None:
        """Notes what is marked before a message is read, for one that turns out to be rubbish."""
        self._before = bytes(self._memory[:_SEEN])

    def begun(self, op: int, before_reading: bool = False) -> list[tuple[Stage, float]]:
        """The stages that the op of a number has begun, or had at the last `look`, each with its moment
        (time.monotonic); empty if what is there are no marks, since the child's backend may write anywhere."""
        marks: list[tuple[Stage, float]] = []
        memory = self._before if before_reading else self._memory
        try:
            number, count = _OP.unpack_from(memory)
            at = _OP.size
            for _ in range(count if number == op else 0):
                moment, length = _MARK.unpack_from(memory, at)
                at += _MARK.size + length
                marks.append((Stage(bytes(memory[at - length : at]).decode()), moment))
        except (struct.error, ValueError):
            return []
        return marks

    def close(self) -> None:
        """Looks at none."""
        self._memory = b""
        self._block.close()

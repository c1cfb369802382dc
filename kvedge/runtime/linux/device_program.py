"""The program of a cgroup of version 2 that decides on devices, with rules of ours in front of it.

Called by `cgroup_devices`. Pure: instructions as the kernel has them go in and come out. A rule allows one device to be
read and written, and leaves every other question to the instructions behind it: what the container's runtime
allows stays allowed, and what it forbids stays forbidden. The rules are read from the instructions and remembered
nowhere else.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

# One instruction: the operation, both registers, an offset, a number.
_INSTRUCTION: Final = struct.Struct("<BBhi")
_LOAD_WORD: Final = 0x61
_AND_32: Final = 0x54
_JUMP_NOT_EQUAL: Final = 0x55
_MOVE: Final = 0xB7
_EXIT: Final = 0x95
_CALL: Final = 0x85
_LOAD_WIDE: Final = 0x18
_RESULT: Final = 0x00
_SCRATCH: Final = 0x02
# To the second register from where the first one, the question, points.
_FROM_QUESTION: Final = 0x12
# The question: kind and access in one word, then the two numbers.
_ACCESS, _MAJOR, _MINOR = 0, 4, 8
_KINDS: Final = {"b": 1, "c": 2}
# Reading is 2 and writing 4 of the upper half; to make a node is 1.
_READ_WRITE: Final = (2 | 4) << 16
_RULE_LENGTH: Final = 9


class Device(NamedTuple):
    """A device: `b` for block or `c` for character, and its number as stat(2) has it."""

    kind: str
    number: int


def with_rules(program: bytes, devices: Iterable[Device]) -> bytes:
    """The program with exactly these rules of ours, whichever it had before."""
    return b"".join(_make_rule(device) for device in sorted(set(devices))) + _without_rules(program)


def find_ruled_devices(program: bytes) -> frozenset[Device]:
    """The devices for which it has a rule of ours."""
    return frozenset(_parse_rules(program))


def is_plain(program: bytes) -> bool:
    """Whether it can be loaded again as it is: without maps and calls, which the kernel shows as its own addresses."""
    operations = [(code, registers >> 4) for code, registers, _, _ in _INSTRUCTION.iter_unpack(program)]
    return not any(code == _CALL or (code == _LOAD_WIDE and source) for code, source in operations)


def _parse_rules(program: bytes) -> list[Device]:
    found: list[Device] = []
    size = _RULE_LENGTH * _INSTRUCTION.size
    for start in range(0, len(program) - size, size):
        rule = program[start : start + size]
        numbers = [_INSTRUCTION.unpack_from(rule, place * _INSTRUCTION.size)[3] for place in (2, 4, 6)]
        kind = next((name for name, number in _KINDS.items() if number == numbers[0]), "")
        if not kind or min(numbers) < 0:
            break
        device = Device(kind, os.makedev(*numbers[1:]))
        if rule != _make_rule(device):
            break
        found.append(device)
    return found


def _without_rules(program: bytes) -> bytes:
    return program[len(_parse_rules(program)) * _RULE_LENGTH * _INSTRUCTION.size :]


def _make_rule(device: Device) -> bytes:
    """A jump leads behind the rule, to the next one or to the runtime's own instructions."""
    return b"".join(
        _INSTRUCTION.pack(*each)
        for each in (
            (_LOAD_WORD, _FROM_QUESTION, _ACCESS, 0),
            (_AND_32, _SCRATCH, 0, ~_READ_WRITE),
            (_JUMP_NOT_EQUAL, _SCRATCH, 6, _KINDS[device.kind]),
            (_LOAD_WORD, _FROM_QUESTION, _MAJOR, 0),
            (_JUMP_NOT_EQUAL, _SCRATCH, 4, os.major(device.number)),
            (_LOAD_WORD, _FROM_QUESTION, _MINOR, 0),
            (_JUMP_NOT_EQUAL, _SCRATCH, 2, os.minor(device.number)),
            (_MOVE, _RESULT, 0, 1),
            (_EXIT, 0, 0, 0),
        )
    )

"""Rules in front of a program of a cgroup, told by running the instructions: some of them, as the kernel does."""

from __future__ import annotations

import os
import struct
from typing import Final

import pytest

from kvedge.runtime.linux.device_program import Device, find_ruled_devices, is_plain, with_rules

DISK: Final = Device("b", os.makedev(253, 7))
OTHER: Final = Device("b", os.makedev(259, 1 << 19))
TAP: Final = Device("c", os.makedev(240, 3))
BLOCK, CHARACTER = 1, 2
MAKE, READ, WRITE = 1, 2, 4
# What a runtime has attached, the least of it: nothing is allowed; and only what has number 1:3.
NOTHING: Final = struct.pack("<BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
NULL_DEVICE: Final = b"".join(
    struct.pack("<BBhi", *each)
    for each in (
        (0x61, 0x12, 4, 0),
        (0x55, 0x02, 4, 1),
        (0x61, 0x12, 8, 0),
        (0x55, 0x02, 2, 3),
        (0xB7, 0x00, 0, 1),
        (0x95, 0, 0, 0),
        (0xB7, 0x00, 0, 0),
        (0x95, 0, 0, 0),
    )
)


def asked(program: bytes, kind: int, access: int, device: int) -> bool:
    """What a program answers."""
    question = struct.pack("<III", access << 16 | kind, os.major(device), os.minor(device))
    registers = [0] * 11
    code = list(struct.iter_unpack("<BBhi", program))
    place = 0
    while True:
        operation, pair, offset, number = code[place]
        target = pair & 15
        place += 1
        match operation:
            case 0x61:
                assert pair >> 4 == 1, "only the question is read"
                (registers[target],) = struct.unpack_from("<I", question, offset)
            case 0x54:
                registers[target] &= number & 0xFFFFFFFF
            case 0x55:
                place += offset if registers[target] != number else 0
            case 0xB7:
                registers[target] = number
            case 0x95:
                return registers[0] == 1
            case _:
                raise AssertionError(f"operation {operation:#x}")


@pytest.mark.parametrize("access", [READ, WRITE, READ | WRITE])
def test_a_device_with_a_rule_may_be_read_and_written(access: int) -> None:
    program = with_rules(NOTHING, [DISK, OTHER])
    assert asked(program, BLOCK, access, DISK.number)
    assert asked(program, BLOCK, access, OTHER.number)
    assert not asked(NOTHING, BLOCK, access, DISK.number)


@pytest.mark.parametrize(
    ("kind", "access", "device"),
    [
        pytest.param(CHARACTER, READ, DISK.number, id="a character device of that number"),
        pytest.param(BLOCK, MAKE, DISK.number, id="the making of a node"),
        pytest.param(BLOCK, MAKE | READ, DISK.number, id="the making of a node, and reading"),
        pytest.param(BLOCK, READ, os.makedev(253, 8), id="its neighbour"),
        pytest.param(BLOCK, READ, os.makedev(252, 7), id="that of another driver"),
    ],
)
def test_every_other_question_goes_to_the_runtime_s_own_instructions(kind: int, access: int, device: int) -> None:
    assert not asked(with_rules(NOTHING, [DISK]), kind, access, device)


def test_a_rule_for_a_character_device_allows_no_block_device() -> None:
    program = with_rules(NOTHING, [DISK, TAP])
    assert asked(program, CHARACTER, READ | WRITE, TAP.number)
    assert not asked(program, BLOCK, READ, TAP.number)
    assert find_ruled_devices(program) == {DISK, TAP}


def test_what_the_runtime_allows_stays_allowed() -> None:
    program = with_rules(NULL_DEVICE, [DISK, OTHER])
    assert asked(program, CHARACTER, READ | WRITE, os.makedev(1, 3))
    assert not asked(program, CHARACTER, READ | WRITE, os.makedev(1, 5))


def test_rules_are_read_from_the_instructions_and_replaced() -> None:
    program = with_rules(NULL_DEVICE, [DISK, OTHER, DISK])
    assert find_ruled_devices(program) == {DISK, OTHER}
    assert with_rules(program, [OTHER, DISK]) == program
    assert find_ruled_devices(with_rules(program, [OTHER])) == {OTHER}
    assert with_rules(program, []) == NULL_DEVICE
    assert find_ruled_devices(NULL_DEVICE) == find_ruled_devices(NOTHING) == find_ruled_devices(b"") == frozenset()


def test_a_program_that_starts_much_like_a_rule_has_none() -> None:
    program = bytearray(with_rules(NOTHING, [DISK]))
    # It allows to make nodes as well.
    struct.pack_into("<i", program, 12, ~(7 << 16))
    assert find_ruled_devices(bytes(program)) == frozenset()
    assert with_rules(bytes(program), []) == program


def test_one_with_maps_or_calls_is_not_plain() -> None:
    assert is_plain(NULL_DEVICE)
    assert is_plain(struct.pack("<BBhiBBhi", 0x18, 0, 0, 5, 0, 0, 0, 0) + NOTHING), "a wide number"
    assert not is_plain(struct.pack("<BBhiBBhi", 0x18, 0x11, 0, 5, 0, 0, 0, 0) + NOTHING), "a map"
    assert not is_plain(struct.pack("<BBhi", 0x85, 0, 0, 14) + NOTHING), "a call"

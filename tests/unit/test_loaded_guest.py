# Tests: tests/support/loaded_guest.py
"""What a guest under load has said, and what is on its disk: whatever is lost on a move is found."""

from __future__ import annotations

import hashlib

import pytest

from tests.support.loaded_guest import BLOCK, SLOTS, check_disk, read_account

PAYLOAD = b"x" * (BLOCK - 96)
SUM = hashlib.md5(PAYLOAD, usedforsecurity=False).hexdigest()


def said(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in lines).encode()


def disk_of(*numbers: int) -> bytearray:
    disk = bytearray(SLOTS * BLOCK)
    for number in numbers:
        at = (number % SLOTS) * BLOCK
        disk[at : at + BLOCK] = f"block {number} {SUM}".ljust(95).encode() + b"\n" + PAYLOAD
    return disk


def test_seconds_and_blocks_that_follow_each_other_are_counted_up_to_the_last_whole_line():
    account = read_account(said("second 1 5.10", ".", f"block 1 {SUM}", "second 2 6.11") + b"second 3")
    assert (account.seconds, account.blocks, account.sums) == (2, 1, [SUM])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(["second 1 5.0", "second 3 7.0"], "second 2 is missing", id="a second is lost"),
        pytest.param(["second 1 5.0", "second 1 5.0"], "second 2 .* comes twice", id="a second comes twice"),
        pytest.param([f"block 2 {SUM}"], "block 1 is missing", id="the first block is lost"),
        pytest.param(["second 1 5.0", "second 2 4.9"], "clock goes back", id="the clock goes back"),
        pytest.param(["WRONG memory in round 7"], "WRONG memory", id="the guest has found something"),
    ],
)
def test_what_is_wrong_in_a_guest_s_words_is_told(lines, words):
    with pytest.raises(AssertionError, match=words):
        read_account(said(*lines))


def test_a_disk_holds_the_last_blocks_in_the_places_of_older_ones():
    account = read_account(said(*(f"block {number} {SUM}" for number in range(1, SLOTS + 11))))
    disk = disk_of(*range(1, SLOTS + 11))
    # The next one may have been written in part.
    disk[11 * BLOCK : 11 * BLOCK + 500] = bytes(500)
    assert check_disk(bytes(disk), account) == SLOTS - 1


@pytest.mark.parametrize("at", [0, 200], ids=["its number", "its content"])
def test_an_acknowledged_block_that_is_not_on_the_disk_is_told(at):
    account = read_account(said(f"block 1 {SUM}", f"block 2 {SUM}"))
    disk = disk_of(1, 2)
    assert check_disk(bytes(disk), account) == 2
    disk[2 * BLOCK + at] ^= 1
    with pytest.raises(AssertionError):
        check_disk(bytes(disk), account)

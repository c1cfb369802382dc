"""A guest under load that proves what it has lived through: it counts seconds, and writes memory and numbered blocks.

For the machine tests that move it. What it says on its serial port in one Pod after the other is one stream; each block
is acknowledged there with its sum once the guest has read it back from the disk, and is checked by the guest again
before another one takes its place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BLOCK: Final = 64 << 10
SLOTS: Final = 128
_HEADER: Final = 96
# Ticks are for the clock of this machine: between the last one here and the first one there the guest stood.
# Memory is written all the time: half of it is made anew while the other half is what it was a round before.
SCRIPT: Final = f"""#!/bin/sh
say() {{ echo "$*" >/dev/console; }}
( n=0; while sleep 1; do n=$((n + 1)); read up _ </proc/uptime; say "second $n $up"; done ) &
( while sleep 0.05; do say .; done ) &
( n=0; while :; do
    n=$((n + 1)); file=/run/memory-$((n % 2))
    [ $n -lt 3 ] || [ "$(md5sum <$file)" = "$before" ] || say "WRONG memory in round $n"
    before=$last
    yes "round $n of memory" | head -c 4194304 >$file
    last=$(md5sum <$file)
done ) &
# The number, sum and place of a block: whether it is on the disk.
is_on_disk() {{
    dd if=/dev/vdd of=/run/read bs={BLOCK} skip=$3 count=1 iflag=direct 2>/dev/null
    [ "$(head -c {_HEADER - 1} /run/read | tr -s ' ')" = "block $1 $2 " ] || return 1
    set -- "$2" $(tail -c +{_HEADER + 1} /run/read | md5sum)
    [ "$1" = "$2" ]
}}
( n=0; while sleep 0.1; do
    n=$((n + 1)); slot=$((n % {SLOTS})); old=$((n - {SLOTS}))
    [ $old -lt 1 ] || {{ read known </run/sum-$slot; is_on_disk $old $known $slot || say "WRONG block $old"; }}
    head -c {BLOCK - _HEADER} /dev/urandom >/run/payload
    set -- $(md5sum </run/payload)
    {{ printf '%-{_HEADER - 1}s\\n' "block $n $1"; cat /run/payload; }} >/run/block
    dd if=/run/block of=/dev/vdd bs={BLOCK} seek=$slot conv=fsync 2>/dev/null
    is_on_disk $n $1 $slot || say "WRONG block $n"
    echo $1 >/run/sum-$slot
    say "block $n $1"
done ) &
"""
# The guest's start may have written the beginning of a line.
_SECOND: Final = re.compile(rb"second (\d+) ([\d.]+)\r?$", re.MULTILINE)
_ACKNOWLEDGED: Final = re.compile(rb"block (\d+) ([0-9a-f]{32})\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Account:
    """What a guest has said so far: its last second, and the sum of each block that it has acknowledged."""

    seconds: int
    sums: Sequence[str]

    @property
    def blocks(self) -> int:
        """The number of the last block."""
        return len(self.sums)


def read_account(stream: bytes) -> Account:
    """Check all that a guest has said, in all places where it was.

    Raises:
        AssertionError: when a number is missing or comes twice, its clock goes back, or it has found something wrong.
    """
    # The last line may be on its way.
    said = stream[: stream.rfind(b"\n") + 1]
    assert b"WRONG" not in said, [line for line in said.splitlines() if b"WRONG" in line]
    seconds = _SECOND.findall(said)
    _check_numbers([int(number) for number, _ in seconds], "second")
    clock = [float(uptime) for _, uptime in seconds]
    assert clock == sorted(clock), "the guest's clock goes back"
    blocks = _ACKNOWLEDGED.findall(said)
    _check_numbers([int(number) for number, _ in blocks], "block")
    return Account(len(seconds), [sum_.decode() for _, sum_ in blocks])


def _check_numbers(found: Sequence[int], what: str) -> None:
    wrong = [(at, number) for at, number in enumerate(found, 1) if at != number]
    assert not wrong, f"{what} {wrong[0][0]} is missing, or comes twice: {wrong[0][1]} is told"


def check_disk(disk: bytes, account: Account) -> int:
    """Check that all blocks are on a disk that the guest has left; how many they are.

    Raises:
        AssertionError: when an acknowledged block is missing, or is another one.
    """
    # The next one may have been written in part or whole, and was not acknowledged.
    first = max(1, account.blocks + 2 - SLOTS)
    for number in range(first, account.blocks + 1):
        at = (number % SLOTS) * BLOCK
        header, payload = disk[at : at + _HEADER], disk[at + _HEADER : at + BLOCK]
        wanted = account.sums[number - 1]
        assert header.split() == [b"block", str(number).encode(), wanted.encode()], (number, header)
        assert hashlib.md5(payload, usedforsecurity=False).hexdigest() == wanted, number
    return account.blocks + 1 - first

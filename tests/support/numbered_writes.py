"""A guest that writes numbered blocks on two disks in turn, and what a copy of them tells of the moment it was made.

For machine tests of copies of running disks. Block n is on the first disk, whole and past every cache, before it is
written to the second one: at any one moment the first disk's last number is the second one's, or one more.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

BLOCK = 512
BLOCKS = 2048
# `disks` are the guest's devices; it runs until /run/stop is there, and its number is in /run/number.
_WRITER = r"""
cat >/run/writer <<'END'
n=0
while [ ! -e /run/stop ]; do
    n=$((n + 1))
    printf '%s ' $n >/run/block.head
    printf '%s' $n | md5sum | cut -c1-32 >>/run/block.head
    dd if=/run/block.head of=/run/block bs=512 count=1 conv=sync 2>/dev/null
    for disk in @disks@; do
        dd if=/run/block of=$disk bs=512 count=1 seek=$((n % 2048)) conv=notrunc oflag=direct 2>/dev/null || exit 1
    done
    # Who reads it meanwhile finds the one before.
    echo $n >/run/number.new
    mv /run/number.new /run/number
done
END
rm -f /run/stop; setsid sh /run/writer </dev/null >/dev/null 2>&1 &
"""


def writer_script(*disks: str) -> str:
    """Shell that begins to write in the guest, and returns."""
    return _WRITER.replace("@disks@", " ".join(disks))


def read_numbers(image: Path) -> list[int]:
    """The numbers of all blocks of a copy that were written, in order; each is whole and in its place."""
    found = []
    with open(image, "rb") as file:
        for place in range(BLOCKS):
            text = file.read(BLOCK).rstrip(b"\0").decode()
            if not text:
                continue
            number, digest = text.split()
            assert hashlib.md5(number.encode()).hexdigest() == digest, f"block {place} is torn: {text!r}"
            assert int(number) % BLOCKS == place
            found.append(int(number))
    return sorted(found)


def check_one_moment(first: Path, second: Path) -> int:
    """The last number on two copies that were made at one moment; nothing before it is missing."""
    numbers = read_numbers(first), read_numbers(second)
    last = numbers[0][-1], numbers[1][-1]
    assert last[0] - last[1] in (0, 1), f"two moments: {last}"
    for each in numbers:
        assert each == list(range(max(1, each[-1] - BLOCKS + 1), each[-1] + 1)), "a block between is missing"
    return last[1]

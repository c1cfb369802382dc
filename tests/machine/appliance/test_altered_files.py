"""Random damage to the one file: whatever is changed, the part in C says something or runs, and never falls over.

A small tree behind the real unpacking program, which is compiled with the compiler's own checks of memory and
arithmetic.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built_program import ROOT

pytestmark = [pytest.mark.machine, pytest.mark.timeout(300)]

ROUNDS = 150
TRAILER = 80
PARTS = ("unpack.c", "tree.c", "bundle.c", "sha256.c")
CHECKS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A file with three others in it, the program a shell script."""
    source = ROOT / "packaging/onefile"
    if shutil.which("gcc") is None or not list(Path("/usr/include").glob("**/zstd.h")):
        pytest.fail("gcc and libzstd-dev are missing: packaging/build installs them")
    program = tmp_path / "unpack"
    subprocess.run(
        ["gcc", "-std=c11", *CHECKS, *(source / part for part in PARTS), "-o", program, "-lzstd"], check=True
    )
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "kvedge").write_text("#!/bin/sh\nexit 0\n")
    (tree / "lib/empty").touch()
    (tree / "lib/random").write_bytes(random.Random(1).randbytes(300_000))
    subprocess.run([sys.executable, source / "pack.py", program, tree, tmp_path / "one", "1700000000"], check=True)
    return tmp_path / "one"


def altered(content: bytes, chance: random.Random) -> bytes:
    """Cut it, or change some bytes of a part; now and then with a digest that fits."""
    manifest, payload, *_ = struct.unpack("<4Q", content[-64:-32])
    end = len(content) - TRAILER
    start = end - payload - manifest
    places = {"trailer": (end, len(content)), "manifest": (start, start + manifest), "payload": (end - payload, end)}
    if chance.random() < 0.2:
        return content[: chance.randrange(start, len(content))]
    low, high = places[chance.choice(sorted(places))]
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 3, 20])):
        changed[chance.randrange(low, high)] = chance.choice([0, 10, 32, 255, chance.randrange(256)])
    if chance.random() < 0.5:
        changed[-32:] = hashlib.sha256(changed[start:end]).digest()
    return bytes(changed)


def test_no_damage_makes_it_fall_over(packed: Path, data: Path) -> None:
    content, chance, codes = packed.read_bytes(), random.Random(5), set()
    environment = {
        "PATH": os.environ["PATH"],
        "KVEDGE_DATA_DIR": str(data),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    for round_ in range(ROUNDS):
        packed.write_bytes(altered(content, chance))
        done = subprocess.run([packed], env=environment, capture_output=True, check=False, timeout=60)
        assert done.returncode in (0, 1, 5), (round_, done.stderr)
        assert b"Sanitizer" not in done.stderr, (round_, done.stderr)
        assert done.returncode == 0 or done.stderr.startswith(b"error: "), (round_, done.stderr)
        codes.add(done.returncode)
    assert codes == {0, 1, 5}
    assert not list((data / "data").glob(".part-*"))
    assert {path.name for path in data.iterdir()} == {"data"}

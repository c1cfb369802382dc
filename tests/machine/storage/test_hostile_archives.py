"""Archives made to exhaust their reader: memory stays bounded, and the processor's time grows with the archive.

Each runs in the worker that imports and pulls use, so that what is measured is what a host would see.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvedge.runtime.program import program_command
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_work import WORKER_VERB, import_work
from tests.machine.storage.conftest import left_over
from tests.support.hostile_archives import ARCHIVES, TAKEN, honest_archive

# Over what an honest image takes. `zstd` itself may have a window of 128 MB, and needs some more beside it.
_MEMORY = 100 << 20
_ZSTD_MEMORY = 160 << 20
# Twice the archive may take this much more; and a busy machine this much, in seconds of its processor.
_RATIO = 2.5
_NOISE = 0.3
_ATTEMPTS = 3
# A small process in between: a process counts among its own memory what it was forked from, and pytest is large.
_MEASURE = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_maxrss, used.ru_utime + used.ru_stime]))
"""


@dataclass(frozen=True)
class _Measured:
    answer: dict[str, Any]
    code: int
    memory: int
    seconds: float


def _run(store: ImageStore, archive: Path) -> _Measured:
    """As `ImageWork` starts it; memory and time are those of the worker and of what it starts."""
    order = import_work(store, archive, "hostile/one:1")._order
    words = [sys.executable, "-I", "-S", "-c", _MEASURE, *program_command(), WORKER_VERB]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(order) + b"\n")
    process.stdin.flush()
    *lines, used = process.stdout.read().splitlines()
    for stream in (process.stdin, process.stdout):
        stream.close()
    assert process.wait() == 0
    code, memory, seconds = msgspec.json.decode(used)
    return _Measured(msgspec.json.decode(lines[-1]) if lines else {}, code, memory << 10, seconds)


def _measured(folder: Path, content: bytes) -> _Measured:
    folder.mkdir()
    store = ImageStore(folder / "images")
    archive = folder / "a.tar"
    archive.write_bytes(content)
    found = _run(store, archive)
    assert left_over(store) == []
    return found


@cache
def _honest(folder: Path) -> _Measured:
    return _measured(folder, honest_archive())


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> _Measured:
    return _honest(tmp_path_factory.mktemp("honest") / "x")


def test_an_honest_archive_is_taken(honest: _Measured) -> None:
    assert honest.code == 0
    assert honest.answer["names"] == ["docker.io/hostile/one:1"]


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_takes_bounded_memory_and_no_more_time_than_its_size(
    tmp_path: Path, honest: _Measured, name: str
) -> None:
    make = ARCHIVES[name]
    small, large = make(1), make(2)
    for attempt in range(_ATTEMPTS):
        one = _measured(tmp_path / f"{attempt}-one", small)
        two = _measured(tmp_path / f"{attempt}-two", large)
        for found in (one, two):
            _check_answer(name, found)
            assert found.memory - honest.memory < (_ZSTD_MEMORY if "zstd" in name else _MEMORY)
        before, after = (max(0.0, found.seconds - honest.seconds) for found in (one, two))
        if after <= before * _RATIO + _NOISE:
            return
    pytest.fail(f"{before:.2f} s, then {after:.2f} s for twice the archive")


def _check_answer(name: str, found: _Measured) -> None:
    assert found.code == 0, found
    if name in TAKEN:
        assert found.answer.get("names"), found
        return
    failure = found.answer["failure"]
    # Its own words for each: nothing reaches the worker's last resort.
    assert failure["kind"] == "BadImage", failure
    assert len(failure["message"]) < 1000

# Tests: kvedge/runtime/linux/calls.py, kvedge/runtime/linux/clock.py, kvedge/runtime/linux/files.py
# Tests: kvedge/runtime/linux/memory.py, kvedge/runtime/linux/namespaces.py
"""Calls of the kernel have one home; here what can be seen without privileges."""

from __future__ import annotations

import ast
import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvedge
from kvedge.runtime.linux import calls, clock, files, mounts, namespaces

PACKAGE = Path(kvedge.__file__).parent


def importers(name: str) -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        # To parse all modules takes seconds.
        for node in ast.walk(ast.parse(text)) if name in text else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if name in [*names, node.module if isinstance(node, ast.ImportFrom) else ""]:
                found.add(str(path.relative_to(PACKAGE)))
    return found


def test_ctypes_is_used_in_one_place() -> None:
    assert {file for file in importers("ctypes") if not file.startswith("runtime/linux/")} == set()


def test_a_call_brings_nothing_but_the_interpreters_own_and_this_folder() -> None:
    modules = " ".join(f"kvedge.runtime.linux.{path.stem}," for path in (PACKAGE / "runtime/linux").glob("[a-z]*.py"))
    program = f"import sys, {modules.rstrip(',')}\nprint(*(n for n in sys.modules if n.startswith('kvedge')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    brought = {name for name in done.stdout.split() if not name.startswith("kvedge.runtime.linux")}
    assert brought == {"kvedge", "kvedge.runtime"}


def test_a_call_that_fails_says_what_and_why() -> None:
    assert calls.check(3, "anything") == 3
    with pytest.raises(OSError, match="there is none") as caught:
        mounts.unmount("/there is none")
    assert caught.value.errno in (errno.ENOENT, errno.EPERM)
    with pytest.raises(OSError, match="setns") as caught:
        namespaces.setns(-1, namespaces.CLONE_NEWNET)
    assert caught.value.errno == errno.EBADF


def test_a_path_is_opened_beneath_a_directory_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("inside")
    directory = os.open(tmp_path, os.O_RDONLY)
    opened = files.openat2(directory, "file", os.O_RDONLY, 0, files.RESOLVE_BENEATH)
    assert os.read(opened, 10) == b"inside"
    with pytest.raises(OSError, match=r"\.\./file") as caught:
        files.openat2(directory, "../file", os.O_RDONLY, 0, files.RESOLVE_BENEATH)
    assert caught.value.errno == errno.EXDEV
    files.syncfs(directory, str(tmp_path))
    os.close(directory)
    os.close(opened)


@pytest.mark.parametrize(("answer", "status", "synchronized"), [(0, 0x2000, True), (5, 0x2040, False), (-1, 0, None)])
def test_the_clock_is_synchronized_unless_the_kernel_says_that_it_is_not(
    answer: int, status: int, synchronized: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Libc:
        def adjtimex(self, buffer: Any) -> int:
            struct.pack_into("i", buffer, 40, status)
            return answer

    monkeypatch.setattr(clock, "libc", Libc())
    assert clock.is_clock_synchronized() is synchronized

"""The programs that a node has for people who look into a launcher's container."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.node.launcher_tools import write_tools


@pytest.fixture
def virsh(tmp_path: Path) -> Iterator[Path]:
    """As a handler with a strict umask writes it."""
    before = os.umask(0o077)
    write_tools(tmp_path / "seed")
    yield tmp_path / "seed/bin/virsh"
    os.umask(before)


def test_virsh_starts_the_program_of_its_launcher_with_all_that_it_was_given(tmp_path: Path, virsh: Path) -> None:
    program = tmp_path / "a program's $(place)" / "kvedge"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    environment = {"LAUNCHER_PROGRAM": shlex.join([str(program), "-P"])}
    words = ["dumpxml", "a b", "", "$(id)", '"']
    done = subprocess.run([virsh, *words], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "-P|launcher-virsh|" + "".join(f"{word}|" for word in words)


def test_elsewhere_virsh_says_that_it_is_in_the_wrong_place(virsh: Path) -> None:
    done = subprocess.run([virsh, "list"], env={}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "this is no container of a launcher" in done.stderr


def test_it_is_left_alone_while_it_is_right_and_mended_when_it_is_not(virsh: Path) -> None:
    seed, first = virsh.parents[1], virsh.stat()
    assert first.st_mode & 0o777 == 0o755
    write_tools(seed)
    assert virsh.stat().st_ino == first.st_ino
    for spoil in (lambda: virsh.write_text("#!/bin/sh\n"), lambda: virsh.chmod(0o700), virsh.unlink):
        spoil()
        write_tools(seed)
        assert (virsh.stat().st_size, virsh.stat().st_mode) == (first.st_size, first.st_mode)
    assert sorted(path.name for path in virsh.parent.iterdir()) == ["virsh", "virt-freezer"]
    assert (virsh.parent / "virt-freezer").read_text() == virsh.read_text().replace("virsh", "freezer")

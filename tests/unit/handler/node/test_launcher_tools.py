"""The programs that a node has for people who look into a launcher's container."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kvedge.handler.node.launcher_tools import write_tools


def test_virsh_starts_the_nodes_program_with_all_that_it_was_given(tmp_path: Path) -> None:
    program = tmp_path / "a program's place" / "kvedge"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    program.chmod(0o755)
    write_tools(tmp_path / "seed", [str(program), "-P"])
    virsh = tmp_path / "seed/bin/virsh"
    done = subprocess.run([virsh, "dumpxml", "a b", ""], capture_output=True, text=True, check=True)
    assert done.stdout == "-P|launcher-virsh|dumpxml|a b||"


def test_another_program_replaces_it_and_the_same_leaves_it_alone(tmp_path: Path) -> None:
    os.umask(0o077)
    write_tools(tmp_path, ["/opt/old/kvedge"])
    virsh = tmp_path / "bin/virsh"
    first = virsh.stat()
    assert first.st_mode & 0o777 == 0o755
    write_tools(tmp_path, ["/opt/old/kvedge"])
    assert virsh.stat().st_ino == first.st_ino
    write_tools(tmp_path, ["/opt/new/kvedge"])
    assert virsh.stat().st_ino != first.st_ino
    assert "/opt/new/kvedge launcher-virsh" in virsh.read_text()
    assert [path.name for path in virsh.parent.iterdir()] == ["virsh"]

# Tests: tests/bench/worker_watch.py
"""What a process of a backup is taken for, by its command line."""

from __future__ import annotations

import pytest

from tests.bench.worker_watch import worker_kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("/usr/bin/python3 -P -m kvedge backup-worker", "backup-worker"),
        ("/usr/bin/python3 -P -m kvedge write-backup", "write-backup"),
        ("/usr/bin/restic -r /store backup --stdin", "restic"),
        ("/usr/bin/qemu-img convert -p -n a b", "qemu-img"),
        ("/usr/bin/qemu-system-x86_64 -name backup", ""),
        ("/usr/bin/python3 -m kvedge standalone --data-dir /x", ""),
        ("", ""),
    ],
)
def test_a_worker_is_known_by_its_subcommand_or_program(line: str, kind: str) -> None:
    assert worker_kind(line.split()) == kind

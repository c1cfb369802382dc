# Tests: kvedge/storage/disk_file.py, kvedge/storage/decompress.py
"""What an image worker may use: limits that hold for it and for what it starts, seen in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.storage.decompress import ZSTD_MEMORY
from kvedge.storage.disk_file import QEMU_IMG_MEMORY, DiskFacts, check_disk
from kvedge.storage.image_errors import BadImage
from tests.support.waiting import wait_until

GIB = 1 << 30

_CONFINED = """
import json, os, resource, sys
from kvedge.storage.images import image_worker
from kvedge.storage.images.image_worker_message import Order
from kvedge.storage.images.layer_unpack import UnpackLimits
from kvedge.storage.images.registry_pace import PaceLimits

verb, subject = sys.argv[1], os.fsencode(sys.argv[2])
image_worker._confine(
    Order(verb=verb, root=b"/nowhere", subject=subject, limits=UnpackLimits(), pace=PaceLimits())
)
kinds = ("RLIMIT_FSIZE", "RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_CORE")
print(json.dumps({kind: resource.getrlimit(getattr(resource, kind)) for kind in kinds}))
"""


def confined(verb: str, subject: Path) -> dict[str, tuple[int, int]]:
    """The limits of a worker that has such an order."""
    argv = [sys.executable, "-c", _CONFINED, verb, str(subject)]
    limits: dict[str, tuple[int, int]] = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return limits


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def test_a_sparse_disk_s_copy_may_have_its_size(tmp_path: Path) -> None:
    disk = sparse(tmp_path / "disk.raw", 300 * GIB)
    assert confined("import", disk)["RLIMIT_FSIZE"][0] == 300 * GIB


@pytest.mark.parametrize("verb", ["import", "pull"])
def test_nothing_else_has_larger_files_than_an_image_may_hold(verb: str, tmp_path: Path) -> None:
    most = confined(verb, tmp_path / "missing")["RLIMIT_FSIZE"][0]
    assert 256 * GIB < most < 260 * GIB


_IMPORT = """
import resource, sys
from pathlib import Path
from kvedge.storage.image_errors import BadImage
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
told = []
try:
    import_file(ImageStore(sys.argv[1]), sys.argv[2], "big", lambda done, total: told.append(done))
except BadImage as error:
    print(error, told)
"""


def test_a_disk_that_cannot_be_copied_is_refused_before_with_both_sizes(tmp_path: Path) -> None:
    disk = tmp_path / "disk.raw"
    disk.write_bytes(b"x" * (2 << 20))
    argv = [sys.executable, "-c", _IMPORT, str(tmp_path / "images"), str(disk)]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert said.startswith(f"disk.raw is a disk of {2 << 20} bytes, more than the {1 << 20} that a file may have")
    assert said.endswith("[]\n")


_LIMIT = """#!/bin/sh
echo "{\\"data\\": $(ulimit -d)}"
"""

_USES = {
    "qemu-img": "print(disk_file._qemu_img('info', Path('/nowhere'), 'raw')['data'])",
    "zstd": "with decompress._run_zstd(io.BytesIO()) as opened: print(json.loads(opened.read(100))['data'])",
}


@pytest.mark.parametrize(("name", "most"), [("qemu-img", QEMU_IMG_MEMORY), ("zstd", ZSTD_MEMORY)])
def test_what_a_worker_starts_has_a_limit_of_its_own(name: str, most: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(_LIMIT)
    (tmp_path / name).chmod(0o755)
    uses = f"import io\nfrom pathlib import Path\nfrom kvedge.storage import decompress, disk_file\n{_USES[name]}"
    argv = [sys.executable, "-c", f"{_CONFINED}\n{uses}", "pull", "/nowhere"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=environment)
    assert int(done.stdout.splitlines()[-1]) << 10 == most


def test_a_disk_that_takes_too_much_memory_to_check_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "qemu-img: Could not open 'x': Could not read L1 table: Cannot allocate memory"
    (tmp_path / "qemu-img").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    (tmp_path / "qemu-img").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(
        BadImage, match=r"needs more than 256 MiB of memory to check disk\.qcow2; give it larger clusters"
    ):
        check_disk(Path("disk.qcow2"), DiskFacts("qcow2", 1 << 30))


_ABANDONED = """
import os, subprocess, sys
from kvedge.storage.images.image_worker import _end_with_the_asker
child = subprocess.Popen(["sleep", "300"])
print(child.pid, flush=True)
_end_with_the_asker()
"""


def test_what_a_worker_has_started_ends_with_its_asker() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", _ABANDONED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    child = Path("/proc", worker.stdout.readline().decode().strip())
    worker.stdin.close()
    # The pipe's other end is the child's as well.
    assert worker.stdout.read() == b""
    assert worker.wait(30) == -signal.SIGKILL
    worker.stdout.close()
    wait_until(lambda: not child.exists() or "\nState:\tZ" in (child / "status").read_text(), "the child has ended")


def test_a_worker_in_another_s_group_ends_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from kvedge.storage.images.image_worker import _end_with_the_asker as end; end()"],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 75

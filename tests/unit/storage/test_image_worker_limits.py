"""What an image worker may use: limits that hold for it and for what it starts, seen in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GIB = 1 << 30

_CONFINED = """
import json, os, resource, sys
from kvedge.storage import image_worker
from kvedge.storage.image_worker_message import Order
from kvedge.storage.layer_unpack import UnpackLimits
from kvedge.storage.registry_pace import PaceLimits

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
from kvedge.storage.image_store import ImageStore

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
told = []
try:
    ImageStore(sys.argv[1]).import_file(sys.argv[2], "big", lambda done, total: told.append(done))
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

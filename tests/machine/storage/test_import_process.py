"""The worker's own process, as in its Pod: user 107, its own network and mounts; killed and started again."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import encode_json
from kvedge.resources.types.import_job import JOB_VARIABLE, HttpSource, ImportJob
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

MIB = 1 << 20
ADDRESS = "192.168.77.1"
IMAGE = os.urandom(4 * MIB) + bytes(16 * MIB) + os.urandom(MIB)
# A place of its own: an address of a site's network, the claim at /data, and a termination log.
SCRIPT = """
set -e
ip link set lo up
ip address add {address}/32 dev lo
mkdir -p /data
mount --bind {claim} /data
mount --bind {log} /dev/termination-log
{server} &
while [ ! -e {ready} ]; do sleep 0.05; done
exec setpriv --reuid 107 --regid 107 --clear-groups --bounding-set -all {python} -m kvedge import-worker
"""
SERVER = """
import http.server, pathlib, sys, time
image = open(sys.argv[1], 'rb').read()
slow = sys.argv[2] == 'slow'
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(image)))
        self.end_headers()
        for start in range(0, len(image), 1 << 20):
            self.wfile.write(image[start:start + (1 << 20)])
            if slow and start >= 3 << 20:
                time.sleep(600)
    def log_message(self, *_): pass
server = http.server.HTTPServer(('192.168.77.1', 8000), Handler)
pathlib.Path(sys.argv[3]).touch()
server.serve_forever()
"""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A claim of user 107."""
    if os.geteuid() != 0:
        pytest.fail("needs root")
    made_log = not Path("/dev/termination-log").exists()
    if made_log:
        Path("/dev/termination-log").touch()
    (tmp_path / "claim").mkdir()
    (tmp_path / "log").touch()
    for path in (tmp_path / "claim", tmp_path / "log"):
        os.chown(path, 107, 107)
    (tmp_path / "image").write_bytes(IMAGE)
    (tmp_path / "server.py").write_text(SERVER)
    yield tmp_path
    if made_log:
        Path("/dev/termination-log").unlink()


def start(place: Path, url: str, checksum: str = "", speed: str = "fast") -> subprocess.Popen[bytes]:
    job = ImportJob(name="d", size=32 * MIB, http=HttpSource(url=url, checksum=checksum))
    ready = place / "ready"
    ready.unlink(missing_ok=True)
    script = SCRIPT.format(
        ready=ready,
        address=ADDRESS,
        claim=place / "claim",
        log=place / "log",
        python=sys.executable,
        server=f"{sys.executable} {place / 'server.py'} {place / 'image'} {speed} {ready}",
    )
    environment = {**os.environ, JOB_VARIABLE: encode_json(job).decode(), "PYTHONPATH": str(Path.cwd())}
    # The server of the place ends with its process namespace.
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE)


def outcome(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "log").read_bytes())
    return found


def finish(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, problem = process.communicate(timeout=120)
    return process.returncode, problem.decode()


URL = f"http://{ADDRESS}:8000/disk.img"


def test_a_worker_fills_a_claim_as_an_unprivileged_user_from_a_site_s_server(place: Path) -> None:
    code, problem = finish(start(place, URL, f"sha256:{hashlib.sha256(IMAGE).hexdigest()}"))

    assert code == 0, problem
    assert outcome(place) == {"message": "Import Complete", "virtualSize": 32 * MIB}
    disk = place / "claim/disk.img"
    assert disk.read_bytes()[: len(IMAGE)] == IMAGE
    assert (disk.stat().st_uid, disk.stat().st_mode & 0o777) == (107, 0o660)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/x", "http://169.254.169.254/latest/meta-data"])
def test_a_worker_does_not_look_at_its_own_place_or_at_metadata(place: Path, url: str) -> None:
    code, _ = finish(start(place, url))

    assert code == 1
    assert "never imported from" in outcome(place)["message"]
    assert os.listdir(place / "claim") == []


def test_a_wrong_checksum_ends_with_3(place: Path) -> None:
    assert finish(start(place, URL, "md5:" + "0" * 32))[0] == 3
    assert (outcome(place)["reason"], outcome(place)["fatal"]) == ("ChecksumError", True)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_ended_in_the_middle_is_followed_by_one_that_fills_the_claim(
    place: Path, how: signal.Signals
) -> None:
    process = start(place, URL, speed="slow")
    part = place / "claim/.disk.img.part"
    wait_until(lambda: part.exists() and part.stat().st_blocks > 0, "something is written")
    worker = next(
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and b"import-worker" in _command(path) and str(place).encode() not in _command(path)
        if _is_below(int(path.name), process.pid)
    )
    os.kill(worker, how)
    process.wait(timeout=30)
    if process.stderr is not None:
        process.stderr.close()
    assert not (place / "claim/disk.img").exists()
    if how == signal.SIGTERM:
        assert os.listdir(place / "claim") == []

    code, problem = finish(start(place, URL))
    assert code == 0, problem
    assert (place / "claim/disk.img").read_bytes()[: len(IMAGE)] == IMAGE
    assert os.listdir(place / "claim") == ["disk.img"]


def _command(path: Path) -> bytes:
    try:
        return (path / "cmdline").read_bytes()
    except OSError:
        return b""


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False

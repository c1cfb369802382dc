"""An OpenSSH server of the distribution that takes SFTP alone, in a mount namespace with users of its own.

Used by tests of backups. Needs root, apt, unshare and ssh-keygen.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import free_port
from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import wait_until

USER = "keeper"
_UID = 1500
# No other machine's user database is looked at, and what it has of processes lies in a /run of its own.
_START = """
mount --make-rprivate / && mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/shadow" /etc/shadow &&
mount -t tmpfs run /run && mkdir -m 755 /run/sshd && exec "$2/usr/sbin/sshd" -D -e -f "$1/config"
"""


@dataclass(frozen=True, slots=True)
class SftpServer:
    """`data` is the user's directory; `key` opens it, `known` is the server's own as a client remembers it."""

    address: str
    port: int
    data: Path
    key: str
    known: str

    @property
    def url(self) -> str:
        """restic's name of a repository there."""
        return f"sftp://{USER}@{self.address}:{self.port}/{self.data}/r"


def make_key(path: Path) -> str:
    """A new pair of keys: the private one; the public one lies beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.read_text()


@contextmanager
def sftp_server(address: str = "127.0.0.1") -> Iterator[SftpServer]:
    """A server that listens there until the block ends."""
    # Not below pytest's directories: each session closes them to all users but its own.
    with tempfile.TemporaryDirectory(prefix="kvedge-sftp-") as place:
        Path(place).chmod(0o755)
        with _serve(Path(place), address) as server:
            yield server


@contextmanager
def _serve(place: Path, address: str) -> Iterator[SftpServer]:
    root = unpack_packages("openssh-server", "openssh-server", "libwrap0")
    port, data = free_port(), place / "data"
    data.mkdir()
    os.chown(data, _UID, _UID)
    make_key(place / "host")
    key = make_key(place / "user")
    (place / "passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/bin/false\n{USER}:x:{_UID}:{_UID}::/:/bin/sh\n"
    )
    (place / "shadow").write_text(f"root:*:19000::::::\nsshd:*:19000::::::\n{USER}:*:19000::::::\n")
    (place / "config").write_text(
        f"Port {port}\nListenAddress {address}\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nForceCommand internal-sftp\n"
        "Subsystem sftp internal-sftp\n"
    )
    libraries = ":".join(str(each) for each in (root / "usr/lib").glob("*-linux-gnu"))
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _START, "sh", str(place), str(root)],
            stdout=log, stderr=log, env={**os.environ, "LD_LIBRARY_PATH": libraries},
        )  # fmt: skip
        try:
            wait_until(lambda: "Server listening" in (place / "log").read_text(), "sshd listens", 30)
            known = f"[{address}]:{port} {(place / 'host.pub').read_text()}"
            yield SftpServer(address, port, data, key, known)
        finally:
            process.terminate()
            process.wait(20)

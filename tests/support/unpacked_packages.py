"""Programs of the distribution that are unpacked into the tests' cache and not installed.

For programs whose package would start a service on the machine that the tests run on. Needs apt and dpkg.
"""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from pathlib import Path

from tests.support.guest import cache_directory


def unpack_packages(name: str, *packages: str) -> Path:
    """The file tree of these packages, downloaded into the cache when it is not there; without what they depend on.

    Raises:
        subprocess.CalledProcessError: when the distribution's packages cannot be had.
    """
    target = cache_directory() / "packages" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (cache_directory() / "guest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                # apt drops to a user that may not write here, and then downloads as the caller.
                download = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages]
                subprocess.run(download, cwd=scratch, capture_output=True, check=True, timeout=300)
                for archive in Path(scratch).glob("*.deb"):
                    subprocess.run(["dpkg", "-x", str(archive), f"{scratch}/root"], check=True)
                # The scratch directory is its owner's alone; programs that drop their rights must read this one.
                Path(scratch, "root").chmod(0o755)
                Path(scratch, "root").rename(target)
    return target

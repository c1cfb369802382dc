"""The one file of packaging/build, made once for each state of the sources and kept in a cache: for the machine tests.

Called by tests of the built program. Writes below the tests' cache directory only.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.support.guest import cache_directory

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (
    "kvedge/**/*.py",
    "kvedge/web/static/**/*",
    "packaging/build",
    "packaging/console/*",
    "packaging/onefile/*",
    "systemd/*",
    "LICENSE",
)
_KEPT = 2


@cache
def built_program() -> Path:
    """The path of the program as it is now; `KVEDGE_TEST_PROGRAM` names another one.

    Raises:
        RuntimeError: with what the builder said, when it cannot be made.
    """
    given = os.environ.get("KVEDGE_TEST_PROGRAM")
    if given:
        return Path(given)
    programs = cache_directory() / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    # Several runs of the tests may want one at the same time.
    with (programs / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _made(programs)


def _made(programs: Path) -> Path:
    copy, made = programs / "sources", programs / "new"
    for leftover in (copy, made):
        shutil.rmtree(leftover, ignore_errors=True)
    # From a copy: whoever edits the checkout meanwhile does not disturb.
    copy_sources(copy)
    place = programs / _digest(copy)
    if not place.is_dir():
        run_build(copy, made)
        copy.rename(made / "sources")
        made.rename(place)
        for old in sorted(programs.glob("?" * 32), key=lambda path: path.stat().st_mtime)[:-_KEPT]:
            shutil.rmtree(old)
    shutil.rmtree(copy, ignore_errors=True)
    return program_in(place)


def program_in(directory: Path) -> Path:
    """The program among what packaging/build left there."""
    (found,) = [path for path in directory.iterdir() if path.is_file() and os.access(path, os.X_OK)]
    return found


def copy_sources(target: Path) -> None:
    """What a build depends on, in another place."""
    for pattern in _SOURCES:
        for path in ROOT.glob(pattern):
            if path.is_file():
                copy = target / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)


def run_build(checkout: Path, output: Path) -> None:
    """Build there, with the Python packages of earlier builds.

    Raises:
        RuntimeError: with what the builder said.
    """
    environment = {
        **os.environ,
        "KVEDGE_BUILD": str(cache_directory() / "build"),
        # As if from one commit, whatever has been changed since.
        "SOURCE_DATE_EPOCH": "1700000000",
    }
    done = subprocess.run(
        ["nice", str(checkout / "packaging/build"), str(output)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise RuntimeError(f"packaging/build: {done.stdout}{done.stderr}".strip())


def _digest(directory: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).digest()
            digest.update(f"{path.relative_to(directory)}\0".encode() + content)
    return digest.hexdigest()[:32]

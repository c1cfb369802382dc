"""A second checkout of this repository somewhere else on the machine, with a virtual environment that works there.

Used by tests that run what a user runs from a clone. The environment's files are links to those of this checkout, as a
clone's own would be downloaded anew; what names the checkout's place is written for the clone.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_SOURCES: Final = ("kvedge", "packaging", "proto", "systemd", "k3s", "pyproject.toml", "README.md", "LICENSE")


@contextmanager
def clone_at(place: Path) -> Iterator[Path]:
    """A checkout at `place`, gone at the end; its parent has to be there."""
    place.mkdir(mode=0o755)
    try:
        _copy_sources(place)
        _copy_environment(place)
        yield place
    finally:
        shutil.rmtree(place)


def _copy_sources(place: Path) -> None:
    without = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in _SOURCES:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=without)
        else:
            shutil.copy2(source, place / name)


def _copy_environment(place: Path) -> None:
    """The environment that these tests run in."""
    # Links where both are on one file system; else copies.
    command = ["cp", "--archive", sys.prefix, str(place / ".venv")]
    if subprocess.run([*command, "--link"], capture_output=True, check=False).returncode != 0:
        shutil.rmtree(place / ".venv", ignore_errors=True)
        subprocess.run(command, check=True)
    # As packaging/environment does it, from what is here: pip takes the links to the old place away, and makes its own.
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    python = place / ".venv" / "bin" / "python"
    subprocess.run(
        [python, "-m", "pip", "install", "-qq", "--root-user-action=ignore", *offline, "--editable", place], check=True
    )
    mark_as_made(place)


def mark_as_made(place: Path) -> None:
    """Say that the environment was made for this place, as packaging/environment does.

    Its files may be links to those of the checkout that it was copied from, whose own marks stay as they are.
    """
    for name in (".made-run", ".made-test"):
        (place / ".venv" / name).unlink(missing_ok=True)
    (place / ".venv" / ".made-run").write_text(f"{_stamp(place)}\n")


def _stamp(place: Path) -> str:
    """What packaging/environment leaves in an environment that it has made there: it then makes none."""
    version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, check=True).stdout
    made_of = (place / "pyproject.toml").read_bytes() + b"run\n" + version + f"{place}\n".encode()
    return hashlib.sha256(made_of).hexdigest()

"""packaging/demo, as a newcomer runs it, from wherever a checkout may lie: the guest boots and answers.

Launchers run the program of the checkout as user 107, who may not enter a home of mode 0700; the modes of homes stay as
they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.box import service_cidr_for
from tests.support.checkout_clone import clone_at
from tests.support.ended_runs import announce_box, retract_box
from tests.support.guest import build_guest, cache_directory

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

POD_CIDR = "10.98.91.0/24"
ANOTHER_USER = 65534


@contextmanager
def root_home() -> Iterator[Path]:
    """A new directory in root's home."""
    home = Path("/root")
    mode = home.stat().st_mode
    # As Debian makes it.
    home.chmod(0o700)
    try:
        with tempfile.TemporaryDirectory(prefix="kvedge-demo-", dir=home) as directory:
            yield Path(directory)
        assert home.stat().st_mode & 0o777 == 0o700
    finally:
        home.chmod(mode & 0o7777)


@contextmanager
def other_home() -> Iterator[Path]:
    """A home that its user alone may enter, with letters on the way that a shell or an old locale would trip over."""
    with tempfile.TemporaryDirectory(prefix="kvedge demo 'ü' ", dir="/home") as directory:
        home = Path(directory)
        home.chmod(0o700)
        place = home / "Müller & Söhne – 日本"
        place.mkdir(mode=0o700)
        for path in (home, place):
            os.chown(path, ANOTHER_USER, ANOTHER_USER)
        yield place
        found = home.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o700, ANOTHER_USER)


PLACES = {"root's home": root_home, "another user's home, with odd letters": other_home}


def demo(clone: Path, data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script, with a directory and a range of its own; guests are emulated, as this may be a guest itself."""
    own = {
        "DEMO_DIR": str(data),
        "DEMO_POD_CIDR": POD_CIDR,
        "DEMO_SERVICE_CIDR": service_cidr_for(POD_CIDR),
        "KVEDGE_EMULATION": "tcg",
    }
    own["DEMO_CACHE"] = str(cache_directory())
    return subprocess.run(
        ["packaging/demo", *arguments],
        cwd=clone,
        env={"PATH": os.environ["PATH"], **own},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """The demo's data directory; whatever runs from it is ended if the demo does not do so."""
    directory = tmp_path / "data"
    announce_box(directory, POD_CIDR)
    yield directory
    retract_box(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_the_demo_runs_from_wherever_the_checkout_lies(
    place: Callable[[], AbstractContextManager[Path]], data: Path
) -> None:
    build_guest()
    with place() as parent, clone_at(parent / "kvedge") as clone:
        try:
            done = demo(clone, data)
            assert done.returncode == 0, done.stdout + done.stderr
            # The environment that was there was taken: nothing was downloaded for this test.
            assert "installing" not in done.stdout
            assert "the guest answers HTTP" in done.stdout
            assert "the guest has found its disk again" in done.stdout
            assert "/dev/sda, 256 MiB, serial number demo-extra" in done.stdout
            console = next(line for line in done.stdout.splitlines() if " console demo " in line)
            # The command that it shows is one, as it stands there.
            told = subprocess.run(f"{console} --help", shell=True, capture_output=True, text=True, check=True)
            assert "console" in told.stdout
        finally:
            stopped = demo(clone, data, "--stop")
        assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert not data.exists()


def test_the_demo_shows_what_the_launcher_was_told_when_its_vm_fails(data: Path) -> None:
    """A launcher's image whose /root its user may not pass, as it once was."""
    build_guest()
    with root_home() as parent, clone_at(parent / "kvedge") as clone:
        image = clone / "kvedge/storage/images/launcher_image.py"
        text = image.read_text()
        image.write_text(text.replace('("root", 0o755)', '("root", 0o700)'))
        assert image.read_text() != text
        try:
            done = demo(clone, data)
        finally:
            demo(clone, data, "--stop")
    assert done.returncode == 1
    assert "The demo failed: the VMI failed: PodFailed" in done.stdout, done.stdout
    assert "Warning of VirtualMachineInstance demo, " in done.stdout, done.stdout
    assert f"cannot run the command: Permission denied ({clone}/.venv/bin/python)" in done.stdout

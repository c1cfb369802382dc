"""kill -9 at each named step of a volume's coming and going: what is wanted is reached, and then nothing is done.

The whole of a box dies, or the launcher. The guest need not boot: QEMU has the disks, and it runs on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import urllib3

from kvedge.kube.errors import KubeError
from tests.machine.volumes.dying_program import ATTACHING, DETACHING, Death, make_mortal, set_mark
from tests.support.box import Box
from tests.support.checkout_clone import clone_at
from tests.support.guest import build_guest
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(1800)]

IMAGE = "local/guest:1"
NAME = "plugged"
# How many steps of each way something dies at; with 15 or more at all of them.
ROUNDS = int(os.environ.get("KVEDGE_TEST_HOTPLUG_KILL_ROUNDS", "3"))
# Without /var/run, a link that would lead out of the launcher.
DIRECTORY = "run/kubevirt/hotplug-disks"


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    with clone_at(Path("/run/kvedge-mortal")) as place:
        make_mortal(place)
        yield place


@pytest.fixture(scope="module")
def box(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    program = [str(checkout / ".venv/bin/python"), "-m", "kvedge"]
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.64.0/24", program=program)
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    assert [line for line in mounts if str(found.data_dir) in line] == []


def some(deaths: Sequence[Death]) -> list[Death]:
    """As many as are asked for, from everywhere on the way."""
    rounds = min(ROUNDS, len(deaths))
    return [deaths[number * len(deaths) // rounds] for number in range(rounds)]


def test_who_is_killed_at_a_step_brings_it_to_its_end_when_it_is_back(box: Box, checkout: Path) -> None:
    box.apply(a_claim("lasting"))
    box.apply(hotplug_vm(NAME, IMAGE, "lasting"))
    vmi = box.wait_phase(NAME, "Running")
    guest = HotplugGuest(box, NAME)
    qemu = box.qemu_pids(vmi.metadata.uid)
    coming, going = some(ATTACHING), some(DETACHING)
    for number in range(max(len(coming), len(going))):
        # New claims for each round: an image is made once.
        for name, more in (("file", {}), ("device", {"volumeMode": "Block"})):
            box.apply(a_claim(f"{name}-{number}", **more))
        volumes = {name: {"persistentVolumeClaim": {"claimName": f"{name}-{number}"}} for name in ("file", "device")}
        die(guest, checkout, coming[number % len(coming)], volumes)
        guest.wait_ready("file", "device")
        settled(guest)
        die(guest, checkout, going[number % len(going)], dict.fromkeys(volumes))
        guest.wait_ready()
        wait_until(lambda: not guest.attachments(), "no attachment Pod is left")
        settled(guest)
        assert left_in_launcher(box, vmi.metadata.uid) == []
    assert guest.vmi().metadata.uid == vmi.metadata.uid
    assert box.qemu_pids(vmi.metadata.uid) == qemu


def die(guest: HotplugGuest, checkout: Path, death: Death, volumes: dict[str, dict[str, object] | None]) -> None:
    """Ask for volumes, have what comes to the step die, and have it back."""
    box, uid = guest.box, guest.vmi().metadata.uid
    process, launcher = box.process, box.launcher_pids(uid)[-1]
    assert process is not None
    set_mark(checkout, death)
    with contextlib.suppress(KubeError, urllib3.exceptions.HTTPError):
        # The answer may be lost with the box.
        guest.write_spec(**volumes)
    if death.in_launcher:
        wait_until(lambda: launcher not in box.launcher_pids(uid), f"the launcher dies when {death.name}", 40)
        return
    wait_until(lambda: process.poll() is not None, f"the box dies when {death.name}", 40)
    assert process.returncode == -signal.SIGKILL
    box.start()
    guest.write_spec(**volumes)


def settled(guest: HotplugGuest) -> None:
    """Until nobody writes anything about the volumes any more, while everybody is awake."""
    before: list[str] = []

    def is_quiet() -> bool:
        now = [guest.vmi().metadata.resource_version, *(pod.metadata.resource_version for pod in guest.attachments())]
        is_same, before[:] = now == before, now
        return is_same

    wait_until(is_quiet, "nothing is done any more", 30, pause=1.5)


def left_in_launcher(box: Box, uid: str) -> list[str]:
    """What lies in the launcher's directory of hotplugged volumes."""
    return os.listdir(f"/proc/{box.launcher_pids(uid)[-1]}/root/{DIRECTORY}")

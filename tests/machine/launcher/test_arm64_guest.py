"""A guest of arm64 that really boots, by its UEFI firmware and a kernel, on an amd64 host: QEMU emulates it.

Not part of the ordinary run: it needs the packages qemu-system-arm and qemu-efi-aarch64 (200 MB), and a kernel of arm64
from the distribution (100 MB). With KVEDGE_TEST_ARM64=1 it runs.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.guest import build_arm64_guest
from tests.support.launcher_pod import GUEST_ADDRESS, GUEST_MAC, NETWORK, LauncherPod, kill, launcher_pod

pytestmark = [
    pytest.mark.machine,
    pytest.mark.incremental,
    pytest.mark.skipif(
        not os.environ.get("KVEDGE_TEST_ARM64"),
        reason="set KVEDGE_TEST_ARM64=1, with qemu-system-arm and qemu-efi-aarch64 installed",
    ),
]

FOREIGN = ("--guest-architecture", "aarch64")
UUID = "5d307ca9-b3ef-428c-8861-06e72d69f264"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[LauncherPod]:
    """A Pod with a guest of arm64 that has been started: kernel, an empty disk, cloud-init, a screen."""
    tree = tmp_path_factory.mktemp("arm64-image")
    tree.chmod(0o755)
    files = build_arm64_guest()
    (tree / "boot").mkdir()
    for name in ("vmlinuz", "initrd"):
        shutil.copyfile(files / name, tree / "boot" / name)
    directory = tmp_path_factory.mktemp("arm64")
    with launcher_pod(directory, seed=seed, images={"kernel-boot": tree}, options=FOREIGN) as pod:
        container = {"image": "kernel", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"}
        vmi = pod.vmi(
            architecture="arm64",
            domain={
                "memory": {"guest": "256Mi"},
                "features": {"acpi": {}},
                "firmware": {
                    "uuid": UUID,
                    "kernelBoot": {"kernelArgs": "console=ttyAMA0 quiet", "container": container},
                },
                "devices": {
                    "disks": [{"name": "scratch", "disk": {}}, {"name": "seed", "cdrom": {}}],
                    "interfaces": NETWORK["interfaces"],
                    "rng": {},
                },
            },
            networks=NETWORK["networks"],
            volumes=[
                {"name": "scratch", "emptyDisk": {"capacity": "2Gi"}},
                {"name": "seed", "cloudInitNoCloud": {"userData": "#cloud-config\nhostname: arm\n"}},
            ],
        )
        pod.sync(vmi, network=True)
        yield pod


def test_a_guest_of_arm64_boots_by_uefi_and_has_its_lease_its_disks_and_its_console(guest: LauncherPod) -> None:
    console = guest.console()
    console.expect(b"kvedge-guest: ready", seconds=240)
    console.close()
    facts = guest.guest_facts()
    assert facts["address"] == GUEST_ADDRESS
    assert facts["mac"] == GUEST_MAC
    assert facts["firmware"] == "uefi"
    assert facts["product_uuid"] == UUID
    assert facts["kernel"].endswith("-arm64")
    assert facts["disk_vda"] == str(2 << 30)
    assert facts["cloud_init"] == "NoCloud"
    assert any(name.startswith("qemu-system-aar") for name in guest.processes().values())


def test_a_guest_of_arm64_shuts_down_when_its_launcher_is_asked_to(guest: LauncherPod) -> None:
    guest.guest_facts()
    kill(guest.monitor_pid(), signal.SIGTERM)
    assert guest.wait_state(m.DOMAIN_STATE_SHUTOFF, 60).reason == m.DOMAIN_REASON_SHUTDOWN
    guest.call("Delete")
    assert guest.wait_exit() == 0

"""A guest that AMD SEV encrypts, judged by libvirt's QEMU driver on a host that is told to have SEV.

No test starts one: this needs the CPU. The golden domains are tested with libvirt's schema in test_golden_domains.py.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kvedge.launcher.libvirt.node_capabilities import HostDocuments, read_capabilities
from tests.machine.launcher.test_golden_domains import NAMESPACES, REPOSITORY

pytestmark = [
    pytest.mark.machine,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="AMD SEV is of x86-64"),
    pytest.mark.skipif(not Path("/usr/share/OVMF/OVMF_CODE_4M.fd").exists(), reason="install ovmf"),
]


def _run(what: str, directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*NAMESPACES, sys.executable, "-m", "tests.machine.launcher.encrypted_domain", what, str(directory)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def judged() -> Iterator[dict[str, Any]]:
    if not os.path.exists("/dev/kvm"):
        pytest.skip("this machine has no /dev/kvm, without which libvirt lets no guest be encrypted")
    # Not below pytest's own directory: a socket's path has 107 characters at most.
    with TemporaryDirectory(prefix="kve-") as directory:
        root = Path(directory, "libvirt")
        if not _run("record", root)["kvm"]:
            pytest.skip("QEMU of this machine has no KVM")
        yield _run("judge", root)


def test_libvirt_takes_the_domain_and_gives_qemu_what_encrypts_it(judged: dict[str, Any]) -> None:
    command = judged["command"]
    assert judged["valid"] == "default_sev"
    assert '"qom-type":"sev-guest"' in command
    assert '"policy":5' in command
    assert "confidential-guest-support=" in command
    assert "dh-cert-file" in command
    assert "session-file" in command


def test_each_virtio_device_of_the_guest_asks_it_for_pages(judged: dict[str, Any]) -> None:
    # Of the NIC libvirt leaves out what depends on its tap when it is asked for a command alone.
    devices = [part for part in judged["command"].split("-device ") if '"driver":"virtio-' in part]
    without = [part.split(",")[0] for part in devices if '"iommu_platform":true' not in part]
    assert without == ['\'{"driver":"virtio-net-pci-non-transitional"']
    assert len(devices) == 6


def test_the_owner_hears_of_the_host_before_the_guest_starts(judged: dict[str, Any]) -> None:
    assert judged["platform"] == ["cGxheWVk", "Y2hhaW4="]
    assert "not running" in judged["measured"]


def test_the_node_is_labelled_by_what_libvirt_says(judged: dict[str, Any]) -> None:
    documents = HostDocuments(
        domain_capabilities=judged["capabilities"], capabilities="<host/>", host_model="", libvirt=0, qemu=0
    )
    # How many guests with encrypted registers there can be is asked of the CPU itself, which is not played.
    assert read_capabilities(documents).launch_security == ("sev",)

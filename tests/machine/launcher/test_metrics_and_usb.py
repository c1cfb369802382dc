"""A guest that reads metrics of its host, from its disk and its port, and has slots for USB devices of clients."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kvedge.resources.names import USB_SLOTS, USB_SOCKET
from tests.support.agent_guest import agent_image, agent_vmi, in_guest
from tests.support.launcher_pod import LauncherPod, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

# What vm-dump-metrics does: a request, and the answer up to its end.
ASK = """
for port in /sys/class/virtio-ports/*; do
    grep -qx org.github.vhostmd.1 "$port/name" && found="/dev/${port##*/}"
done
exec 3<>"$found"
printf '%s\\n\\n' 'WORDS' >&3
while IFS= read -r line <&3; do [ -n "$line" ] || break; echo "$line"; done
"""
# Past what the guest's kernel has in memory; the document stands behind 16 bytes.
READ = "echo 3 >/proc/sys/vm/drop_caches; head -c 8192 /dev/vdc | tail -c +17 | tr -d '\\000'"


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[LauncherPod]:
    image = agent_image(tmp_path_factory.mktemp("image"))
    with launcher_pod(tmp_path_factory.mktemp("metrics"), seed=seed, images={"kernel-boot": image}) as started:
        vmi = agent_vmi(started)
        devices = vmi["spec"]["domain"]["devices"]
        devices |= {"downwardMetrics": {}, "clientPassthrough": {}}
        devices["disks"].append({"name": "metrics", "disk": {"bus": "virtio"}})
        vmi["spec"]["volumes"].append({"name": "metrics", "downwardMetrics": {}})
        started.sync(vmi, network=True)
        wait_until(lambda: started.call("GetDomain").guest.os_id, "the guest is up", seconds=60, pause=0.1)
        yield started


def names(document: str) -> set[str]:
    return {metric.findtext("name", "") for metric in ElementTree.fromstring(document)}


def ask(pod: LauncherPod, words: str = "GET /metrics/XML") -> str:
    return in_guest(pod, ASK.replace("WORDS", words))


def test_the_port_answers_and_does_so_again_when_the_launcher_was_killed(pod: LauncherPod) -> None:
    assert {"HostName", "ResourceMemoryLimit", "FreePhysicalMemory", "VirtProductInfo"} <= names(ask(pod))
    assert ask(pod, "GET /nonsense") == "INVALID REQUEST\n"
    kill(pod.launcher_pid())
    wait_until(lambda: "<metrics>" in ask(pod), "the next launcher answers", seconds=60, pause=1.0)


def test_the_disk_follows_the_host(pod: LauncherPod) -> None:
    def present() -> str:
        document = in_guest(pod, READ)
        return document[document.index("<metrics>") :]

    first = wait_until(
        lambda: (text := present()) and "Time" in names(text) and text, "metrics on the disk", seconds=30
    )
    wait_until(lambda: present() != first, "newer ones", seconds=30, pause=1.0)


def test_each_usb_slot_speaks_usbredir(pod: LauncherPod) -> None:
    for number in range(USB_SLOTS):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            with directory_name(pod.directory / "private" / pod.uid) as name:
                client.connect(f"{name}/{USB_SOCKET}{number}")
            assert b"qemu usb-redir guest" in client.recv(256)


@contextlib.contextmanager
def directory_name(path: Path) -> Iterator[str]:
    """A name that is short enough for a socket below it."""
    opened = os.open(path, os.O_PATH)
    try:
        yield f"/proc/self/fd/{opened}"
    finally:
        os.close(opened)

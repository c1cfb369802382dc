"""A guest on one box that has directories of volumes by virtiofs: what it reads and writes, and what it cannot."""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID, SYSTEM_NAMESPACE
from kvedge.resources.shares.shared_directories import SHARES_VOLUME
from kvedge.resources.types.core import Event
from kvedge.resources.types.kubevirt import KubeVirt
from tests.support.agent_guest import RUN_PATH
from tests.support.box import Box, processes, small_vm
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not any(os.access(path, os.X_OK) for path in ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")),
        reason="needs a virtiofsd",
    ),
]

IMAGE = "local/guest:1"
NAME = "sharing"
CORE = "/api/v1/namespaces/default"
# Of any Pod, below the directory of the box: a Secret itself is in memory, and a daemon sees only what it serves.
MARKS = f"*/{SHARES_VOLUME}/*.lock"
USER_DATA = r"""#!/bin/sh
mkdir -p /www/cgi-bin
cat >/www/cgi-bin/run <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
exec sh 2>&1
END
chmod 755 /www/cgi-bin/run
for tag in data settings words; do
    mkdir -p /$tag
    mount -t virtiofs $tag /$tag
done
"""


def sharing_vm() -> JsonObject:
    vm = small_vm(NAME, IMAGE)
    spec: Any = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["domain"]["devices"]["filesystems"] = [
        {"name": name, "virtiofs": {}} for name in ("data", "settings", "words")
    ]
    spec["volumes"] += [
        {"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "words", "secret": {"secretName": "words"}},
    ]
    return vm


def allow(box: Box) -> None:
    gates = {"developerConfiguration": {"featureGates": ["EnableVirtioFsStorageVolumes"]}}
    box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": gates}}))
    generation = box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").metadata.generation
    wait_until(
        lambda: box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").status.observed_generation == generation,
        "the gate is seen",
    )


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.76.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the KubeVirt object is made")
        allow(found)
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
        found.client.request("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim})
        settings = {"metadata": {"name": "settings"}, "data": {"colour": "blue"}}
        found.client.request("POST", f"{CORE}/configmaps", settings)
        found.client.request("POST", f"{CORE}/secrets", {"metadata": {"name": "words"}, "stringData": {"word": "hush"}})
        found.apply(sharing_vm())
        found.wait_phase(NAME, "Running")
        found.wait_answer(NAME)
        yield found
        found.remove_vm(NAME)


def in_guest(box: Box, command: str) -> str:
    """What a command prints in the guest, as its root."""
    vmi = box.vmi(NAME)
    assert vmi is not None
    return in_guest_at(vmi.status.interfaces[0].ip_address, command)


def in_guest_at(address: str, command: str) -> str:
    """The same, while no box tells where the guest is."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    url = f"http://{address}{RUN_PATH}"
    with opener.open(url, data=command.encode(), timeout=60) as answer:
        return str(answer.read(65536).decode())


def daemons(box: Box) -> dict[str, int]:
    """The virtiofsd processes of this box, by the name of the filesystem whose mark they hold."""
    marks = {(found.stat().st_dev, found.stat().st_ino): found.stem for found in box.data_dir.rglob(MARKS)}
    found = {}
    for pid, command in processes():
        if "virtiofsd" not in command[0]:
            continue
        with contextlib.suppress(FileNotFoundError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                status = descriptor.stat()
                if name := marks.get((status.st_dev, status.st_ino)):
                    found[name] = pid
    return found


def test_a_guest_reads_the_files_of_a_config_map_and_of_a_secret(box: Box) -> None:
    assert in_guest(box, "cat /settings/colour /words/word") == "bluehush"


def test_it_cannot_write_them(box: Box) -> None:
    assert "can't create" in in_guest(box, "echo red >/settings/colour; echo red >/settings/another")
    assert in_guest(box, "cat /settings/colour; ls /settings") == "bluecolour\n"


def test_what_it_writes_is_in_the_claim_and_belongs_to_the_user_of_guests(box: Box) -> None:
    said = in_guest(box, "mkdir /data/deep && echo kept >/data/deep/note && sync && ls -ln /data/deep && df /data")
    assert " 0 " in said, "it belongs to root in the guest"
    (note,) = box.data_dir.rglob("deep/note")
    assert note.read_text() == "kept\n"
    assert (note.stat().st_uid, note.stat().st_gid) == (LAUNCHER_UID, LAUNCHER_GID)
    # What the host puts there is there at once.
    (note.parent / "from-the-host").write_text("hello")
    assert in_guest(box, "cat /data/deep/from-the-host") == "hello"


def test_no_way_leads_out_of_the_directory(box: Box) -> None:
    (note,) = box.data_dir.rglob("deep/note")
    (note.parent / "out").symlink_to("/etc/hostname")
    (note.parent / "up").symlink_to("../../../../../../etc/hostname")
    # Links lead to the guest's own files.
    own = in_guest(box, "cat /etc/hostname")
    assert in_guest(box, "cat /data/deep/out") == own
    assert in_guest(box, "ls -a /data/..; ls /data/../../kubevirt* 2>&1 | head -1").count("hostname") == 0
    serving = daemons(box)
    assert sorted(serving) == ["data", "settings", "words"]
    for pid in serving.values():
        root = Path(f"/proc/{pid}/root")
        assert not (root / "usr").exists(), "its root is the directory"
        status = Path(f"/proc/{pid}/status").read_text()
        assert f"Uid:\t{LAUNCHER_UID}\t{LAUNCHER_UID}" in status
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status


def test_a_config_map_that_changes_changes_in_the_guest(box: Box) -> None:
    box.client.request(
        "PUT", f"{CORE}/configmaps/settings", {"metadata": {"name": "settings"}, "data": {"colour": "green"}}
    )
    wait_until(lambda: in_guest(box, "cat /settings/colour") == "green", "the guest sees the change", 150, 1.0)


def test_a_launcher_that_is_killed_leaves_the_guest_its_directories(box: Box) -> None:
    vmi = box.vmi(NAME)
    assert vmi is not None
    before = daemons(box)
    (qemu,) = box.qemu_pids(vmi.metadata.uid)
    launcher = box.launcher_pids(vmi.metadata.uid)[-1]
    os.kill(launcher, signal.SIGKILL)
    wait_until(lambda: box.launcher_pids(vmi.metadata.uid)[-1] != launcher, "another launcher runs")
    assert in_guest(box, "echo again >/data/again && cat /data/again") == "again\n"
    assert daemons(box) == before
    assert box.qemu_pids(vmi.metadata.uid) == [qemu]


def test_a_box_that_is_killed_and_started_again_leaves_the_guest_its_directories(box: Box) -> None:
    vmi = box.vmi(NAME)
    assert vmi is not None
    before = daemons(box)
    assert sorted(before) == ["data", "settings", "words"]
    (qemu,) = box.qemu_pids(vmi.metadata.uid)
    box.end(signal.SIGKILL)
    assert in_guest_at(vmi.status.interfaces[0].ip_address, "echo alone >/data/alone && cat /data/alone") == "alone\n"
    box.start()
    box.wait_phase(NAME, "Running")
    assert in_guest(box, "cat /data/alone /words/word") == "alone\nhush"
    assert daemons(box) == before
    assert box.qemu_pids(vmi.metadata.uid) == [qemu]
    assert [event for event in box.client.list(Event, "default") if event.reason == "FilesystemLost"] == []


def test_a_guest_that_restarts_mounts_them_again(box: Box) -> None:
    in_guest(box, "(sleep 1; reboot -f) >/dev/null 2>&1 &")

    def booted_again() -> bool:
        try:
            return float(in_guest(box, "cat /proc/uptime").split()[0]) < 60
        except OSError:
            return False

    wait_until(booted_again, "the guest has booted again", 120, 1.0)
    assert in_guest(box, "cat /data/again") == "again\n"


def test_the_end_of_a_daemon_is_told(box: Box) -> None:
    os.kill(daemons(box)["settings"], signal.SIGKILL)

    def told() -> str:
        events = [event for event in box.client.list(Event, "default") if event.reason == "FilesystemLost"]
        return events[0].message if events else ""

    assert "filesystem settings: its virtiofsd has ended" in wait_until(told, "an event tells", 60, 1.0)
    # The others go on.
    assert in_guest(box, "cat /data/again") == "again\n"
    assert box.vmi(NAME).status.phase == "Running"  # type: ignore[union-attr]  # seen before


def test_a_guest_that_shuts_down_takes_all_of_it_along(box: Box) -> None:
    pids = set(daemons(box).values())
    assert pids
    box.cli("stop", NAME)
    box.wait_gone(NAME, 120)
    # The marks have gone with the Pod.
    wait_until(lambda: pids.isdisjoint(pid for pid, _ in processes()), "no daemon is left")

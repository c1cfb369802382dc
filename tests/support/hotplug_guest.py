"""A guest that finds its disks by serial, and runs commands: for disks that come and go, on one box or in a cluster.

The commands go to its web server. What is asked is asked as users do: by the program's verbs and the API.
"""

from __future__ import annotations

import contextlib
import subprocess
from typing import Any

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.volume_facts import ATTACHMENT_APP
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance, VolumeStatus
from tests.support.box import Box, small_vm
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.edits import edit
from tests.support.waiting import wait_until

# `run` takes root's commands by HTTP.
USER_DATA = r"""#!/bin/sh
mkdir -p /www/cgi-bin
cat >/www/cgi-bin/run <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
exec sh 2>&1
END
chmod 755 /www/cgi-bin/run
"""

# The guest's own list of its disks.
_DISKS = "/www/cgi-bin/disks"


def hotplug_vm(name: str, image: str, claim: str = "") -> JsonObject:
    """The small guest, ready to be asked; perhaps with a claim that it has from the start and for good."""
    made = small_vm(name, image)
    spec: Any = made["spec"]["template"]["spec"]
    # A guest that is asked to restart does so at once.
    spec["terminationGracePeriodSeconds"] = 5
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    if claim:
        spec["domain"]["devices"]["disks"].append({"name": claim, "disk": {"bus": "virtio"}, "serial": claim})
        spec["volumes"].append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA}})
    return made


def a_claim(name: str, **more: object) -> JsonObject:
    """A claim of 64Mi of the default class, unless more is said."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}, **more}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def blank_volume(name: str, **storage: object) -> JsonObject:
    """A DataVolume of 32Mi with nothing in it; `storage` has more of its claim."""
    spec = {"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "32Mi"}}, **storage}}
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


class HotplugGuest:
    """One VM of a box or of this machine's cluster, with what its guest and its status say of its disks."""

    def __init__(self, box: Box | LocalCluster, name: str) -> None:
        self.box = box
        self.name = name

    def vmi(self) -> VirtualMachineInstance:
        """Its run."""
        vmi = self.box.vmi(self.name)
        assert vmi is not None
        return vmi

    def run(self, command: str, seconds: float = 20.0) -> str:
        """What a command prints in the guest."""
        address = self.vmi().status.interfaces[0].ip_address
        asked = ["curl", "-sf", "--noproxy", "*", "--max-time", str(seconds), "--data-binary", command]
        done = subprocess.run([*asked, f"http://{address}/cgi-bin/run"], capture_output=True, text=True, check=True)
        return done.stdout

    def disk(self, serial: str) -> str:
        """The device of the disk with this serial number; empty when there is none."""
        lines = [dict(word.partition("=")[::2] for word in line.split()) for line in self.run(_DISKS).splitlines()]
        return next((line["disk"] for line in lines if line.get("serial") == serial), "")

    def write(self, serial: str, text: str) -> None:
        """Write a text to the beginning of a disk, and have it on the medium."""
        said = self.run(f"printf %s '{text}' | dd of={self.disk(serial)} conv=fsync 2>/dev/null; echo $?")
        assert said == "0\n"

    def read(self, serial: str, length: int) -> str:
        """The beginning of a disk, from the medium."""
        return self.run(f"echo 3 >/proc/sys/vm/drop_caches; head -c {length} {self.disk(serial)}")

    def bytes_of(self, serial: str) -> int:
        """The size of a disk, as the guest knows it."""
        return int(self.run(f"cat /sys/block/$(basename {self.disk(serial)})/size")) * 512

    def add(self, claim: str, *options: str) -> None:
        """Ask for another disk, as users do."""
        self.box.cli("addvolume", self.name, "--volume-name", claim, *options)

    def remove(self, volume: str) -> None:
        """Ask for one less."""
        self.box.cli("removevolume", self.name, "--volume-name", volume)

    def write_spec(self, **volumes: JsonObject | None) -> None:
        """Edit the VM as a user does: hotpluggable volumes by name with their source, None for one that goes.

        All in one write, with a disk on the default bus that has the volume's name for a serial number.
        """

        def change(vm: Any) -> None:
            spec = vm["spec"]["template"]["spec"]
            devices = spec["domain"]["devices"]
            spec["volumes"] = [each for each in spec["volumes"] if each["name"] not in volumes]
            devices["disks"] = [each for each in devices["disks"] if each["name"] not in volumes]
            for name, source in volumes.items():
                if source is not None:
                    ((kind, found),) = source.items()
                    spec["volumes"].append({"name": name, kind: {**found, "hotpluggable": True}})
                    devices["disks"].append({"name": name, "disk": {"bus": "scsi"}, "serial": name})

        edit(self.box.client, VirtualMachine.KIND.path("default", self.name), change)

    def entry(self, volume: str) -> VolumeStatus | None:
        """What the status says of a volume."""
        return next((each for each in self.vmi().status.volume_status if each.name == volume), None)

    def phases(self) -> dict[str, str]:
        """The phases of all hotplugged volumes."""
        entries = self.vmi().status.volume_status
        return {entry.name: entry.phase for entry in entries if entry.hotplug_volume is not None}

    def wait_ready(self, *volumes: str, seconds: float = 40.0) -> None:
        """Until these hotplugged volumes are Ready and there are no others."""
        wanted = dict.fromkeys(volumes, "Ready")
        try:
            wait_until(lambda: self.phases() == wanted, f"exactly {sorted(volumes)} are Ready", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from error

    def wait_message(self, volume: str, words: str, seconds: float = 40.0) -> None:
        """Until the status of a volume says this."""

        def says() -> bool:
            entry = self.entry(volume)
            return entry is not None and words in entry.message

        try:
            wait_until(says, f"{volume} says {words!r}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from error

    def attachments(self) -> list[Pod]:
        """The attachment Pods there are."""
        return self.box.client.list(Pod, "default", label_selector=f"kubevirt.io={ATTACHMENT_APP}")

    def wait_answer(self) -> None:
        """Until the guest has booted and takes commands."""
        self.box.wait_answer(self.name)

        def answers() -> bool:
            with contextlib.suppress(subprocess.CalledProcessError):
                return self.run("echo yes") == "yes\n"
            return False

        wait_until(answers, "the guest takes commands", 60)

    def told(self) -> str:
        """What there is to see, for a failing test."""
        entries = self.vmi().status.volume_status
        lines = [f"{entry.name}: {entry.phase} {entry.reason} {entry.message}" for entry in entries]
        pods = [
            f"{pod.metadata.name} {pod.status.phase} {pod.metadata.deletion_timestamp}" for pod in self.attachments()
        ]
        return "\n".join([*lines, *pods, self.box.told(self.name)])

"""The VM of the bench of protection: a guest that writes to a file system on one claim, and says how long each took.

A program in the guest, compiled here, writes 4 KiB at random places of a file, past the guest's cache and durably, one
after the other with 5 ms between them, until it is told to stop. As the file is on a file system, a guest that the
agent has frozen makes it wait, like any program: the longest write is what a user of the guest notices.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

NAME: Final = "bench"
DISK: Final = "data"
TARGET: Final = "target"
_IMAGE: Final = "local/protection-bench:1"
_FROZEN: Final = re.compile(r"frozen_ms\W+(\d+)")
# More than the tables of a file system of 100 GiB without inodes take.
_METADATA_BYTES: Final = 16 << 20
# fill FILE MIB SEED: so much that does not compress. time FILE REPORT: until /run/stop is there.
_PROGRAM: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#define MOST 1000000
static unsigned long state;
static int taken[MOST];
static void scramble(char *buffer, long size) {
    for (long i = 0; i < size; i += 8) {
        state ^= state << 13; state ^= state >> 7; state ^= state << 17;
        memcpy(buffer + i, &state, 8);
    }
}
static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}
int main(int argc, char **argv) {
    int fills = argc == 5 && !strcmp(argv[1], "fill");
    int file = open(argv[2], fills ? O_WRONLY | O_CREAT | O_DIRECT : O_WRONLY | O_DIRECT | O_DSYNC, 0600);
    char *buffer;
    if (argc < 4 || file < 0 || posix_memalign((void **)&buffer, 4096, 1 << 20)) return 1;
    state = 88172645463325252UL + 2654435761UL * (fills ? atol(argv[4]) : 0);
    if (fills) {
        for (long i = atol(argv[3]); i > 0; i--) {
            scramble(buffer, 1 << 20);
            if (write(file, buffer, 1 << 20) != 1 << 20) return 2;
        }
        return fsync(file) ? 3 : 0;
    }
    long blocks = lseek(file, 0, SEEK_END) / 4096, count = 0;
    unsigned seed = 1;
    while (count < MOST && access("/run/stop", F_OK)) {
        scramble(buffer, 4096);
        double begun = now();
        if (pwrite(file, buffer, 4096, rand_r(&seed) % blocks * 4096) != 4096) return 2;
        taken[count++] = now() - begun;
        usleep(5000);
    }
    qsort(taken, count, sizeof *taken, order);
    FILE *report = fopen(argv[3], "w");
    fprintf(report, "%ld %d %d %d\n", count, taken[count / 2], taken[count * 99 / 100], taken[count - 1]);
    return fclose(report) || rename(argv[3], "/run/times") ? 4 : 0;
}
"""


@dataclass(frozen=True, slots=True)
class Writes:
    """How long the guest's writes took, in seconds."""

    count: int
    middle: float
    p99: float
    longest: float


class WritingGuest:
    """The guest, and where its disk is on the host."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._guest = HotplugGuest(box, NAME)
        self._fills = 0

    @property
    def image(self) -> Path:
        """The image of its disk."""
        return directory_of(self.box, DISK) / "disk.img"

    def fill(self, file: str, mib: int) -> None:
        """Write so much into a file of its disk, each time something else; on the medium at the end."""
        self._fills += 1
        self._run(f"/tmp/io fill /data/{file} {mib} {self._fills}; echo $?", "0\n", 60 + mib)

    @contextmanager
    def writing(self) -> Iterator[list[Writes]]:
        """Has it write meanwhile; the list has one item at the end."""
        found: list[Writes] = []
        begin = "rm -f /run/stop /run/times; setsid /tmp/io time /data/base /run/report </dev/null >/dev/null 2>&1 &"
        self._run(begin, "")
        yield found
        self._run("touch /run/stop", "")
        text = wait_until(lambda: self._guest.run("cat /run/times 2>/dev/null || true"), "it tells its times", 60)
        count, *times = (int(word) for word in text.split())
        found.append(Writes(count, *(each / 1e6 for each in times)))

    def frozen(self) -> list[float]:
        """For how many seconds it was frozen, each time, as its launcher has logged."""
        logs = self.box.data_dir.rglob("*.log")
        return [int(each) / 1000 for log in sorted(logs) for each in _FROZEN.findall(log.read_text(errors="replace"))]

    def prepare(self, mib: int) -> None:
        """A file system on its disk, and a file of so many MiB in it; a file system that the agent can freeze."""
        self._send(_compile(), "cat >/tmp/io; chmod 755 /tmp/io")
        disk = self._guest.disk(DISK)
        # Its busybox makes none.
        begin = _file_system(self._guest.bytes_of(DISK))
        self._send(zlib.compress(begin, wbits=31), f"gunzip | dd of={disk} bs=1M conv=fsync 2>/dev/null")
        self._run(f"mkdir -p /data; mount -t ext4 {disk} /data; echo $?", "0\n")
        self.fill("base", mib)

    def _send(self, content: bytes, command: str) -> None:
        """Run a command of the guest's that reads this."""
        text = base64.encodebytes(content).decode()
        self._run(f"base64 -d >/tmp/sent <<END\n{text}END\n(</tmp/sent {command}); rm /tmp/sent; echo $?", "0\n", 120)

    def _run(self, command: str, wanted: str, seconds: float = 30) -> None:
        address = self._guest.vmi().status.interfaces[0].ip_address
        # By its input, as an argument could not be as long as a program.
        asked = ["curl", "-sf", "--noproxy", "*", "--max-time", str(seconds), "--data-binary", "@-"]
        asked.append(f"http://{address}/cgi-bin/run")
        said = subprocess.run(asked, input=command, capture_output=True, text=True, check=True).stdout
        if said != wanted:
            raise RuntimeError(f"the guest says {said!r} to: {command[-200:]}")

    def wait(self) -> None:
        """Until it runs commands, and its agent is there."""
        self.box.wait_phase(NAME, "Running")
        self.box.wait_answer(NAME)
        self._guest.wait_answer()

        def has_agent() -> bool:
            found = self._guest.vmi().status.conditions
            return any(each.type == "AgentConnected" and each.status == "True" for each in found)

        wait_until(has_agent, "the agent is there", 120)


@contextmanager
def writing_guest(directory: Path, gib: int, mib: int) -> Iterator[WritingGuest]:
    """A box with that VM alone: a disk of so many GiB, of which the guest has written so many MiB."""
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    # Its disks are mostly holes: five of them take no more than what is written.
    box.options += ["--volume-overcommit", "1000"]
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest(agent=True).disk, _IMAGE)
        box.start()
        _allow_backups(box)
        for name in (DISK, TARGET):
            box.apply(a_claim(name, resources={"requests": {"storage": f"{gib}Gi"}}))
        vm: Any = hotplug_vm(NAME, _IMAGE, DISK)
        vm["metadata"].setdefault("labels", {})["backed"] = "up"
        box.apply(vm)
        guest = WritingGuest(box)
        guest.wait()
        guest.prepare(mib)
        yield guest
    except BaseException:
        print(box.log_tail())
        raise
    finally:
        box.remove()


def directory_of(box: Box, claim: str) -> Path:
    """Where the files of a claim are on the host."""
    found = box.client.get(PersistentVolumeClaim, "default", claim)
    volume = box.client.request("GET", PersistentVolume.KIND.path("", found.spec.volume_name))
    return Path((volume["spec"].get("local") or volume["spec"].get("hostPath"))["path"])


def _allow_backups(box: Box) -> None:
    """KubeVirt's backups have to be asked for."""
    selector = {"virtualMachineLabelSelector": {"matchLabels": {"backed": "up"}}}
    gates = {"featureGates": ["IncrementalBackup", "UtilityVolumes"]}
    wanted = {"developerConfiguration": gates, "changedBlockTrackingLabelSelectors": selector}

    def found() -> KubeVirt | None:
        try:
            return box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")
        except NotFound:
            return None

    wait_until(found, "the controller makes the KubeVirt object")
    box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": wanted}}))

    def is_seen() -> bool:
        now = box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")
        return now.status.observed_generation == now.metadata.generation

    wait_until(is_seen, "the gates are seen")


def _file_system(size: int) -> bytes:
    """The beginning of a disk of so many bytes that has an ext4 in it, in which all that is not zero lies."""
    options = ["-N", "64", "-O", "^has_journal,^resize_inode,^metadata_csum,sparse_super2"]
    options += ["-E", "lazy_itable_init=1,packed_meta_blocks=1,num_backup_sb=0,nodiscard"]
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "disk"
        image.touch()
        os.truncate(image, size)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", *options, image], check=True)
        with image.open("rb") as file:
            return file.read(_METADATA_BYTES)


def _compile() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "io"
        command = ["gcc", "-O2", "-static", "-s", "-x", "c", "-", "-o", str(binary)]
        subprocess.run(command, input=_PROGRAM.encode(), check=True)
        return binary.read_bytes()

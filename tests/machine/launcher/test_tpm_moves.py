"""A guest with a TPM and UEFI variables that last moves between launchers of this machine that share its state's claim,
with all that can be killed: each time one guest, with one whole TPM.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.resources.migration_channels import MEMORY
from kvedge.rpc import launcher_pb2 as m
from tests.support.guest import build_guest
from tests.support.launcher_pod import NETWORK as POD_NETWORK
from tests.support.launcher_pod import QEMU_USER, LauncherPod, guest_interface, kill, launcher_pod
from tests.support.migration_wire import MigrationWire
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.incremental]

STATE = "/run/kubevirt-private/vmi-disks/persistent-state-for-this-vm"
# Makes a place in the TPM (TPM2_NV_DefineSpace) unless it is there (TPM2_NV_ReadPublic), extends a register that a TPM
# forgets when it starts (TPM2_PCR_Extend), and then tells of both again and again.
SEALER = r"""#!/bin/sh
exec 3<>/dev/tpm0
answer() { dd bs=4096 count=1 <&3 2>/dev/null | od -An -v -tx1 | tr -d ' \n'; }
place() { printf '\200\001\000\000\000\016\000\000\001\151\001\120\000\040' >&3; answer | cut -c13-20; }
register() {
    printf '\200\001\000\000\000\024\000\000\001\176\000\000\000\001\000\013\003\000\000\001' >&3
    answer | cut -c61-124
}
before=$(place)
define='\200\002\000\000\000\055\000\000\001\052\100\000\000\001\000\000\000\011\100\000'
define="$define"'\000\011\000\000\000\000\000\000\000\000\016\001\120\000\040\000\013\000\006\000'
define="$define"'\006\000\000\000\010'
printf "$define" >&3
made=$(answer | cut -c13-20)
extend='\200\002\000\000\000\101\000\000\001\202\000\000\000\020\000\000\000\011\100\000\000\011\000\000\000\000\000'
extend="$extend"'\000\000\000\001\000\013'
printf "$extend"'kvedge--kvedge--kvedge--kvedge--' >&3
answer >/dev/null
echo "sealed $before $made" >/dev/console
( n=0; while sleep 0.2; do n=$((n + 1)); echo "tpm $(place) $(register) $n" >/dev/console; done ) &
"""
SEALED = re.compile(rb"sealed (\w+) (\w+)\r?\n", re.MULTILINE)
TOLD = re.compile(rb"tpm (\w+) (\w+) (\d+)\r?\n", re.MULTILINE)
THERE, UNKNOWN, MADE_TWICE = "00000000", "0000018b", "0000014c"
NO_REGISTER = "00" * 32


@dataclass
class Place:
    """Where Pods of this guest are made, one after the other, with one claim for its state as long as it is that."""

    directory: Path
    seed: Path
    image: Path
    stack: contextlib.ExitStack
    claim: Path
    made: int = 0

    def make_claim(self, name: str) -> None:
        """The Pods that follow have an empty one."""
        self.claim = self.directory / name
        self.claim.mkdir()
        os.chown(self.claim, 0, QEMU_USER)
        self.claim.chmod(0o2770)

    def names(self) -> list[str]:
        """What of the TPM lies on the claim."""
        return sorted(name for name in os.listdir(self.claim) if name.startswith("swtpm"))

    @property
    def variables(self) -> bytes:
        """Those of UEFI on the claim: QEMU writes all of them when a guest goes on that has come."""
        return (self.claim / "nvram" / "web_VARS.fd").read_bytes()

    def pod(self, incoming: str = "") -> LauncherPod:
        """Another Pod; for a guest that comes by a migration, or for one that starts."""
        self.made += 1
        options = ("--incoming", incoming) if incoming else ()
        before = (
            f"mount --bind {self.directory}/passwd /etc/passwd\nmkdir -p {STATE}; mount --bind {self.claim} {STATE}"
        )
        return self.stack.enter_context(
            launcher_pod(
                self.directory / f"pod{self.made}",
                seed=self.seed,
                images={"disk_0": self.image},
                options=options,
                before=before,
            )
        )

    def target(self, source: LauncherPod, uid: str, *, lasts: bool = True) -> tuple[LauncherPod, MigrationWire]:
        """A Pod that is ready for the guest, and a wire to it."""
        target = self.pod(uid)
        status = source.call("GetDomain")
        guest = m.SyncRequest(
            vmi_json=json.dumps(sealing_vmi(target, lasts=lasts)).encode(),
            interfaces=[guest_interface()],
            options=m.NodeOptions(emulation=True),
        )
        sizes = {disk.name: disk.image_bytes for disk in status.disks if disk.image_bytes}
        request = m.PrepareIncomingRequest(migration_uid=uid, guest=guest, image_bytes=sizes)
        assert target.call("PrepareIncoming", request, 60).incoming.state == m.INCOMING_READY
        wire = MigrationWire(source.directory / "public", target.directory / "public")
        self.stack.callback(wire.close)
        wire.start()
        return target, wire


def sealing_vmi(pod: LauncherPod, *, lasts: bool = True) -> dict[str, Any]:
    """The guest on UEFI, with state that lasts, or that begins anew with each start."""
    disk = {"bus": "virtio"}
    return pod.vmi(
        domain={
            "memory": {"guest": "256Mi"},
            "firmware": {"bootloader": {"efi": {"secureBoot": False, "persistent": lasts}}},
            "devices": {
                "disks": [{"name": "root", "disk": disk, "bootOrder": 1}, {"name": "seed", "disk": disk}],
                "interfaces": POD_NETWORK["interfaces"],
                "tpm": {"persistent": lasts},
            },
        },
        networks=POD_NETWORK["networks"],
        volumes=[
            {"name": "root", "containerDisk": {"image": "guest"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": SEALER}},
        ],
    )


def serial(pod: LauncherPod) -> bytes:
    log = pod.directory / "private" / pod.uid / "virt-serial0-log"
    return log.read_bytes() if log.exists() else b""


def sealed(pod: LauncherPod) -> tuple[str, ...]:
    """What the guest has found in its TPM when it started."""
    wait_until(lambda: SEALED.search(serial(pod)), "the guest has sealed", seconds=180, pause=0.3)
    (found,) = SEALED.findall(serial(pod))
    return tuple(each.decode() for each in found)


def told(pod: LauncherPod) -> list[tuple[str, str, int]]:
    """What the guest has told in this Pod of its TPM."""
    return [(place.decode(), register.decode(), int(number)) for place, register, number in TOLD.findall(serial(pod))]


def goes_on(pod: LauncherPod) -> tuple[str, str]:
    """What the guest tells anew: the place, and the register."""
    last = max((number for *_, number in told(pod)), default=0)
    found = wait_until(
        lambda: [each for each in told(pod) if each[2] > last], "the guest tells on", seconds=60, pause=0.1
    )
    return found[-1][:2]


def start(place: Place) -> LauncherPod:
    pod = place.pod()
    pod.sync(sealing_vmi(pod), network=True)
    return pod


def incoming(pod: LauncherPod, state: int) -> None:
    def look() -> bool:
        with contextlib.suppress(grpc.RpcError):
            return bool(pod.call("GetDomain").incoming.state == state)
        return False

    wait_until(look, m.IncomingState.Name(state), seconds=120, pause=0.05)


def outgoing(pod: LauncherPod, state: int) -> None:
    look = lambda: pod.call("GetDomain").outgoing.state == state  # noqa: E731
    wait_until(look, m.OutgoingState.Name(state), seconds=120, pause=0.05)


def migrate(source: LauncherPod, uid: str, **wishes: Any) -> None:
    source.call("Migrate", m.MigrateRequest(migration_uid=uid, **wishes))


def release(target: LauncherPod, uid: str) -> None:
    target.call("ReleaseIncoming", m.ReleaseIncomingRequest(migration_uid=uid))


def owned(pod: LauncherPod) -> None:
    """Wait until the launcher owns its guest like any other."""

    def look() -> bool:
        with contextlib.suppress(grpc.RpcError, OSError):
            if pod.call("GetDomain", seconds=5).state == m.DOMAIN_STATE_RUNNING:
                return True
        reconnect(pod)
        return False

    wait_until(look, "the launcher that owns its guest", seconds=60, pause=0.1)


def reconnect(pod: LauncherPod) -> None:
    if pod.channel is not None:
        pod.channel.close()
        pod.channel = None


def kill_launcher(pod: LauncherPod) -> None:
    pid = pod.launcher_pid()
    kill(pid)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the launcher has ended", pause=0.01)
    reconnect(pod)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tpm")
    directory.chmod(0o755)
    user = f"qemu:x:{QEMU_USER}:{QEMU_USER}:qemu:/:/usr/sbin/nologin\n"
    (directory / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    image = directory / "image"
    (image / "disk").mkdir(parents=True)
    shutil.copyfile(build_guest(uefi=True).disk, image / "disk" / "guest.qcow2")
    with contextlib.ExitStack() as stack:
        made = Place(directory, seed, image, stack, directory)
        made.make_claim("state")
        yield made


@pytest.fixture(scope="module")
def running(place: Place) -> dict[str, Any]:
    """Where the guest runs now, under `here`, and what is in the register; each test leaves it running somewhere."""
    pod = start(place)
    assert sealed(pod) == (UNKNOWN, THERE)
    there, register = goes_on(pod)
    assert (there, register != NO_REGISTER) == (THERE, True)
    return {"here": pod, "register": register}


def test_all_of_a_tpm_s_state_moves_with_its_guest(place: Place, running: dict[str, Any]) -> None:
    source = running["here"]
    assert place.names() == ["swtpm"]
    # What the firmware has found to boot from.
    variables = place.variables
    assert "UEFI Non-Block Boot Device".encode("utf-16-le") in variables
    target, _wire = place.target(source, "m-1")
    assert place.names() == ["swtpm", "swtpm-m-1"]
    migrate(source, "m-1")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    # What has come counts from the release on, and not before.
    assert place.names() == ["swtpm", "swtpm-m-1"]
    assert not [name for name in source.processes().values() if name.startswith("swtpm") and name[-1] != "Z"]
    release(target, "m-1")
    owned(target)
    running["here"] = target
    assert place.names() == ["swtpm-m-1", "swtpm.current"]
    assert goes_on(target) == (THERE, running["register"])
    assert place.variables == variables


def test_a_guest_that_stays_keeps_its_tpm_and_what_came_goes(place: Place, running: dict[str, Any]) -> None:
    source = running["here"]
    # All has come, and the answer that it has is lost: libvirt lets the source go on once the wire is cut.
    target, wire = place.target(source, "m-2")
    migrate(source, "m-2", bandwidth_bytes=16 << 20)
    wait_until(lambda: wire.seen[MEMORY], "memory flows", seconds=60, pause=0.01)
    wire.mute.set()
    incoming(target, m.INCOMING_COMPLETE)
    wire.cut()
    outgoing(source, m.OUTGOING_KEPT)
    assert goes_on(source) == (THERE, running["register"])
    target.call("DiscardIncoming", m.DiscardIncomingRequest(migration_uid="m-2"))
    assert target.wait_exit() == 0
    assert place.names() == ["swtpm-m-1", "swtpm.current"]
    assert told(target) == []


def test_a_target_killed_before_the_release_still_has_the_tpm(place: Place, running: dict[str, Any]) -> None:
    source = running["here"]
    target, _wire = place.target(source, "m-3")
    migrate(source, "m-3")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    kill_launcher(target)
    incoming(target, m.INCOMING_COMPLETE)
    release(target, "m-3")
    owned(target)
    running["here"] = target
    assert place.names() == ["swtpm-m-3", "swtpm.current"]
    assert goes_on(target) == (THERE, running["register"])


def test_all_of_its_state_comes_to_an_empty_claim_of_the_target_s_own(place: Place, running: dict[str, Any]) -> None:
    """As when the nodes do not share it: all of it lasts there before the guest runs."""
    source, variables, left = running["here"], place.variables, place.claim
    place.make_claim("own-state")
    target, _wire = place.target(source, "m-own")
    migrate(source, "m-own")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    assert place.variables != variables, "QEMU writes them when the guest goes on"
    accept = m.ReleaseIncomingRequest(migration_uid="m-own", disks_only=True)
    assert target.call("ReleaseIncoming", accept).incoming.state == m.INCOMING_COMPLETE
    assert place.variables == variables
    assert place.names() == ["swtpm-m-own", "swtpm.current"]
    assert told(target) == []
    release(target, "m-own")
    owned(target)
    running["here"] = target
    assert place.names() == ["swtpm-m-own", "swtpm.current"]
    assert goes_on(target) == (THERE, running["register"])
    assert place.variables == variables
    # What the guest has left is as it was: nothing of it counts any more, and nobody but a user removes it.
    assert sorted(os.listdir(left)) == ["nvram", "swtpm-m-3", "swtpm.current"]


def test_a_target_lost_before_its_guest_ran_leaves_all_of_the_state_on_its_own_claim(
    place: Place, running: dict[str, Any]
) -> None:
    source, variables = running["here"], place.variables
    place.make_claim("lost-state")
    target, _wire = place.target(source, "m-lost")
    migrate(source, "m-lost")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    target.call("ReleaseIncoming", m.ReleaseIncomingRequest(migration_uid="m-lost", disks_only=True))
    for pod in (source, target):
        kill(pod.monitor_pid())
        pod.process.wait(20)
    assert told(target) == []
    assert place.names() == ["swtpm-m-lost", "swtpm.current"]
    assert place.variables == variables
    running["here"] = again = start(place)
    assert sealed(again) == (THERE, MADE_TWICE)
    there, running["register"] = goes_on(again)
    assert there == THERE


def test_a_guest_that_is_lost_on_its_way_starts_with_the_tpm_that_it_had(place: Place, running: dict[str, Any]) -> None:
    source = running["here"]
    target, _wire = place.target(source, "m-4")
    migrate(source, "m-4")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    for pod in (source, target):
        kill(pod.monitor_pid())
        pod.process.wait(20)
    # What came is of no use any more: nobody has said that the source was off.
    assert place.names() == ["swtpm-m-4", "swtpm-m-lost", "swtpm.current"]
    running["here"] = again = start(place)
    assert sealed(again) == (THERE, MADE_TWICE)
    assert place.names() == ["swtpm-m-lost", "swtpm.current"]
    assert goes_on(again)[0] == THERE


def test_a_tpm_that_begins_empty_with_each_start_moves_as_well(place: Place, running: dict[str, Any]) -> None:
    kill(running["here"].monitor_pid())
    before, source = place.names(), place.pod()
    source.sync(sealing_vmi(source, lasts=False), network=True)
    assert sealed(source)[0] == UNKNOWN
    held = goes_on(source)
    target, _wire = place.target(source, "m-5", lasts=False)
    migrate(source, "m-5")
    outgoing(source, m.OUTGOING_GONE)
    incoming(target, m.INCOMING_COMPLETE)
    release(target, "m-5")
    owned(target)
    assert goes_on(target) == held == (THERE, held[1] != NO_REGISTER and held[1])
    assert place.names() == before

"""A guest that counts, and moves between launchers of this machine: there and back, and with all that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.handler.migration.migration_patches import is_paused_by_user
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.migration_channels import MEMORY
from kvedge.rpc import launcher_pb2 as m
from kvedge.storage.arriving_mark import ARRIVING
from tests.support.guest import build_guest
from tests.support.launcher_pod import NETWORK as POD_NETWORK
from tests.support.launcher_pod import QEMU_USER, LauncherPod, guest_interface, kill, launcher_pod
from tests.support.migration_relays import MigrationRelays
from tests.support.migration_wire import MigrationWire
from tests.support.moving_claims import MIB, SIZE, VOLUME, MovingClaim, MovingClaims
from tests.support.moving_handlers import MovingHandlers
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.incremental]

# Counts in memory and on two disks, and says so when these differ; one of them has other data, too.
COUNTER = """#!/bin/sh
( dd if=/dev/urandom of=/dev/vdd bs=1M seek=1 count=4 conv=fsync 2>/dev/null
n=0; while sleep 0.2; do
    [ $n = 0 ] || [ "$(head -n 1 /dev/vdb) $(head -n 1 /dev/vdd)" = "$n $n" ] || echo "WRONG $n" >/dev/console
    n=$((n + 1))
    for disk in vdb vdd; do { echo $n; } | dd of=/dev/$disk conv=fsync 2>/dev/null; done
    echo "count $n" >/dev/console
done ) &
"""


def counting_vmi(pod: LauncherPod, claim: MovingClaim, sockets: int = 1) -> dict[str, Any]:
    """Container disk, empty disk and cloud-init's ISO are the Pod's own, and each Pod has another claim: all of them
    have to be copied.
    """
    disk = {"bus": "virtio"}
    made = pod.vmi(
        domain={
            "memory": {"guest": "128Mi"},
            "cpu": {"sockets": sockets, "cores": 1, "threads": 1, "maxSockets": 2},
            "devices": {
                "disks": [{"name": name, "disk": disk} for name in ("root", "scratch", "seed", VOLUME)],
                "interfaces": POD_NETWORK["interfaces"],
                # What is in it moves along.
                "tpm": {},
            },
        },
        networks=POD_NETWORK["networks"],
        volumes=[
            {"name": "root", "containerDisk": {"image": "guest"}},
            {"name": "scratch", "emptyDisk": {"capacity": "64Mi"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": COUNTER}},
            {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim.name}},
        ],
    )
    entry = {"name": VOLUME, "target": "", "persistentVolumeClaimInfo": claim.info}
    made["status"] = {"volumeStatus": [entry]}
    return made


def last_count(pod: LauncherPod) -> int:
    """The last number that the guest has said in this Pod; 0 for none."""
    log = pod.directory / "private" / pod.uid / "virt-serial0-log"
    if not log.exists():
        return 0
    text = log.read_bytes()
    assert b"WRONG" not in text, text[-500:]
    found = [line.split()[1] for line in text.split(b"\n")[:-1] if line.startswith(b"count ")]
    return int(found[-1]) if found else 0


def counts_beyond(pod: LauncherPod, number: int) -> int:
    """A number after this one, once the guest has said it in this Pod."""
    try:
        return wait_until(lambda: (count := last_count(pod)) > number and count, "the guest counts on", pause=0.1)
    except AssertionError as error:
        # A guest that has stopped says why, or that it has not.
        log = pod.directory / "private" / pod.uid / "virt-serial0-log"
        error.add_note(f"its last words: {log.read_bytes()[-4000:] if log.exists() else None!r}")
        raise


def counts_on(pod: LauncherPod) -> int:
    """A number after the present one, which the guest has said meanwhile."""
    return counts_beyond(pod, last_count(pod))


@dataclass
class Place:
    """Where Pods of this guest are made, one after the other."""

    directory: Path
    seed: Path
    image: Path
    stack: contextlib.ExitStack
    claims: MovingClaims
    has: dict[Path, MovingClaim] = field(default_factory=dict)
    made: int = 0
    sockets: int = 1

    def claim(self, pod: LauncherPod) -> MovingClaim:
        """The claim that a Pod has."""
        return self.has[pod.directory]

    def vmi(self, pod: LauncherPod) -> dict[str, Any]:
        """The guest, as it is in a Pod."""
        return counting_vmi(pod, self.claim(pod), self.sockets)

    def pod(self, incoming: str = "", claim: MovingClaim | None = None) -> LauncherPod:
        """Another Pod, on an empty claim; for a guest that comes by a migration, or for one that starts."""
        self.made += 1
        claim = claim or self.claims.filesystem()
        self.has[self.directory / f"pod{self.made}"] = claim
        options = ("--incoming", incoming) if incoming else ()
        return self.stack.enter_context(
            launcher_pod(
                self.directory / f"pod{self.made}",
                seed=self.seed,
                images={"disk_0": self.image},
                options=options,
                # The Pod's image has this user, and libvirt's daemon asks for its name.
                before=f"mount --bind {self.directory}/passwd /etc/passwd\n{claim.mounting}",
            )
        )

    def wire(self, source: LauncherPod, target: LauncherPod) -> MigrationWire:
        """The wire between the two, listening."""
        wire = MigrationWire(source.directory / "public", target.directory / "public")
        self.stack.callback(wire.close)
        wire.start()
        return wire


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("move")
    directory.chmod(0o755)
    user = f"qemu:x:{QEMU_USER}:{QEMU_USER}:qemu:/:/usr/sbin/nologin\n"
    (directory / "passwd").write_text(Path("/etc/passwd").read_text() + user)
    image = directory / "image"
    (image / "disk").mkdir(parents=True)
    shutil.copyfile(build_guest().disk, image / "disk" / "guest.qcow2")
    with contextlib.ExitStack() as stack:
        yield Place(directory, seed, image, stack, MovingClaims(directory, stack))


@pytest.fixture(scope="module")
def running(place: Place) -> dict[str, LauncherPod]:
    """Where the guest runs now, under `here`; each test leaves it running somewhere."""
    pod = place.pod()
    pod.sync(place.vmi(pod), network=True)
    wait_until(lambda: last_count(pod), "the guest counts", seconds=90, pause=0.2)
    # What was plugged in moves along as well.
    place.sockets = 2
    pod.sync(place.vmi(pod), network=True)
    wait_until(lambda: pod.call("GetDomain").vcpus == 2, "another socket")
    return {"here": pod}


def prepare(place: Place, target: LauncherPod, source: LauncherPod, uid: str) -> Any:
    """Have the target make the guest's files, and listen."""
    status = source.call("GetDomain")
    guest = m.SyncRequest(
        vmi_json=json.dumps(place.vmi(target)).encode(),
        interfaces=[guest_interface()],
        options=m.NodeOptions(emulation=True),
    )
    sizes = {disk.name: disk.image_bytes for disk in status.disks if disk.image_bytes}
    assert sizes[VOLUME] == SIZE
    request = m.PrepareIncomingRequest(
        migration_uid=uid, guest=guest, image_bytes=sizes, copied_disk_bytes={VOLUME: SIZE}
    )
    return target.call("PrepareIncoming", request, 60)


def coming(pod: LauncherPod) -> int:
    return int(pod.call("GetDomain").incoming.state)


def leaving(pod: LauncherPod) -> int:
    return int(pod.call("GetDomain").outgoing.state)


def wait_coming(pod: LauncherPod, state: int) -> None:
    def look() -> bool:
        # It looks at its libvirt first, which may be about to start.
        with contextlib.suppress(grpc.RpcError):
            return coming(pod) == state
        return False

    wait_until(look, m.IncomingState.Name(state), seconds=120, pause=0.05)


def wait_leaving(pod: LauncherPod, state: int) -> None:
    def is_there() -> bool:
        found = leaving(pod)
        # Both stay true.
        assert {found, state} != {m.OUTGOING_KEPT, m.OUTGOING_GONE}, "the guest has left, or stays, against all hope"
        return found == state

    wait_until(is_there, m.OutgoingState.Name(state), seconds=120, pause=0.05)


def migrate(place: Place, source: LauncherPod, target: LauncherPod, uid: str, **wishes: Any) -> None:
    """Have the guest begin to move, with its disk."""
    devices = [VOLUME] if place.claim(target).block else []
    request = m.MigrateRequest(migration_uid=uid, copied_volumes=[VOLUME], copied_devices=devices, **wishes)
    source.call("Migrate", request)


def begin(
    place: Place, source: LauncherPod, uid: str, claim: MovingClaim | None = None
) -> tuple[LauncherPod, MigrationWire]:
    """A target that is ready, and a wire to it."""
    target = place.pod(uid, claim)
    assert prepare(place, target, source, uid).incoming.state == m.INCOMING_READY
    return target, place.wire(source, target)


def release(target: LauncherPod, uid: str) -> Any:
    return target.call("ReleaseIncoming", m.ReleaseIncomingRequest(migration_uid=uid))


def kill_launcher(pod: LauncherPod) -> None:
    """End it, and wait until it has: a call to one that is just ending is lost with it."""
    pid = pod.launcher_pid()
    kill(pid)
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the launcher has ended", pause=0.01)
    reconnect(pod)


def reconnect(pod: LauncherPod) -> None:
    """The launcher has started again: its socket is another one."""
    if pod.channel is not None:
        pod.channel.close()
        pod.channel = None


def owned(pod: LauncherPod, state: int = m.DOMAIN_STATE_RUNNING) -> Any:
    """The status, once the launcher owns its guest like any other, which is in that state."""

    def look() -> Any:
        with contextlib.suppress(grpc.RpcError, OSError):
            status = pod.call("GetDomain", seconds=5)
            if status.state == state:
                return status
        reconnect(pod)
        return None

    return wait_until(look, "the launcher that owns its guest", seconds=60, pause=0.1)


def begin_relayed(
    place: Place, source: LauncherPod, uid: str, claim: MovingClaim | None = None
) -> tuple[LauncherPod, MigrationRelays]:
    """As :func:`begin`, with the handlers' own way between the two."""
    target = place.pod(uid, claim)
    assert prepare(place, target, source, uid).incoming.state == m.INCOMING_READY
    relays = MigrationRelays(place.directory / f"kubelet-{uid}", uid, source.directory, target.directory)
    relays.start()
    return target, relays


def move(
    place: Place,
    source: LauncherPod,
    uid: str,
    *,
    relayed: bool = False,
    claim: MovingClaim | None = None,
    **wishes: Any,
) -> LauncherPod:
    """A migration without trouble; the Pod where the guest runs then."""
    target, wire = begin_relayed(place, source, uid, claim) if relayed else begin(place, source, uid, claim)
    before = last_count(source)
    migrate(place, source, target, uid, **wishes)
    wait_leaving(source, m.OUTGOING_GONE)
    wait_coming(target, m.INCOMING_COMPLETE)
    assert source.qemu_pids() == []
    left = last_count(source)
    assert left >= before
    check_copy(place, source, target)
    release(target, uid)
    status = owned(target)
    assert status.vcpus == place.sockets
    assert (status.migrates, status.incoming.migration_uid, status.incoming.state) == (True, uid, m.INCOMING_OWNED)
    # The next number after the last one, whatever was on its way to the log when the guest stopped.
    counts_beyond(target, left)
    wire.close()
    return target


def check_copy(place: Place, source: LauncherPod, target: LauncherPod) -> None:
    """All of the disk has come, holes as holes, and it is no disk before the guest is released."""
    left, came = place.claim(source), place.claim(target)
    assert left.read() == came.read()
    assert any(came.read()[MIB : 5 * MIB])
    if not came.block:
        assert came.names() == [ARRIVING, "disk.img"]
        assert came.image.stat().st_size == SIZE
        assert came.image.stat().st_blocks * 512 < 8 * MIB


def test_a_guest_goes_there_and_back_and_counts_on(place: Place, running: dict[str, LauncherPod]) -> None:
    source = running["here"]
    boot = source.guest_facts()["boot_id"]
    target = move(place, source, "m-1")
    running["here"] = target
    final = source.final()
    assert (final["state"], final["reason"]) == ("DOMAIN_STATE_SHUTOFF", "DOMAIN_REASON_MIGRATED")
    assert target.guest_facts()["boot_id"] == boot
    assert "libvirtd" not in " ".join(target.processes().values())
    # Its launcher is one like any other: it serves, and the guest can go on to the next place.
    assert place.claim(target).names() == ["disk.img"]
    target.sync(place.vmi(target), network=True)
    target.call("Pause")
    target.call("Unpause")
    # One stays until its word is written down, the other one is told to go before.
    assert source.process.poll() is None
    source.call("Delete")
    assert source.wait_exit() == 0
    # To a device that is larger, and is not empty where the disk has nothing.
    device = place.claims.device(SIZE + 8 * MIB, at=8 * MIB)
    back = running["here"] = move(place, target, "m-2", relayed=True, claim=device, connections=4)
    assert back.guest_facts()["boot_id"] == boot
    assert target.process.poll() is None
    os.kill(target.monitor_pid(), signal.SIGTERM)
    assert target.wait_exit() == 0


def handlers(place: Place, source: LauncherPod, uid: str, **state: Any) -> tuple[LauncherPod, MovingHandlers]:
    """A launcher that awaits the guest, and both nodes' handlers."""
    target = place.pod(uid)
    made = MovingHandlers(
        place.directory / f"kubelet-{uid}", uid, (source, target), lambda: prepare(place, target, source, uid), **state
    )
    place.stack.callback(made.close)
    made.start()
    return target, made


def turn_until(moving: MovingHandlers, found: Callable[[], Any], what: str) -> None:
    def look() -> Any:
        moving.turn()
        return found()

    wait_until(look, what, seconds=90, pause=0.1)


def test_handlers_that_know_of_each_other_by_the_vmi_alone_move_a_guest(
    place: Place, running: dict[str, LauncherPod]
) -> None:
    source = running["here"]
    # First one that is cancelled on the way.
    limits = {"bandwidthPerMigration": "1Mi"}
    target, moving = handlers(place, source, "m-h1", migrationConfiguration=limits)
    turn_until(moving, lambda: moving.state.target_node_domain_detected, "the guest is on its way")
    moving.server.change(abortRequested=True)
    turn_until(moving, lambda: moving.state.failed, "the guest stays")
    assert (moving.state.abort_status, moving.state.failure_reason) == ("Succeeded", "Live migration has been aborted")
    turn_until(moving, lambda: target.process.poll() is not None, "the target's launcher goes")
    counts_on(source)
    # Then one that a user has paused before: so it stays.
    source.call("Pause")
    target, moving = handlers(place, source, "m-h2")
    turn_until(moving, lambda: moving.state.completed, "the guest is the other node's")
    assert (moving.state.failed, moving.server.vmi.status.node_name) == (False, "node-b")
    assert moving.state.source_node_domain_gone_timestamp
    running["here"] = target
    # From the device to a file, whose claim is the VMI's now.
    assert [claim_of(volume) for volume in moving.server.vmi.spec.volumes] == ["new"]
    assert place.claim(target).names() == ["disk.img"]
    assert place.claim(target).read() == place.claim(source).read()
    assert owned(target, m.DOMAIN_STATE_PAUSED).reason == m.DOMAIN_REASON_USER
    assert is_paused_by_user(moving.server.vmi)
    left = last_count(source)
    target.call("Unpause")
    counts_beyond(target, left)
    # Told at once that its word is written, and not after a quarter of a minute.
    assert source.wait_exit() == 0


def hold(source: LauncherPod, uid: str) -> None:
    """Stop the guest on its way, as for one that changes memory too fast."""
    status = source.call("HoldMigrating", m.HoldMigratingRequest(migration_uid=uid))
    assert (status.outgoing.state, status.outgoing.held) == (m.OUTGOING_ACTIVE, True)
    assert status.state == m.DOMAIN_STATE_RUNNING
    assert source.call("DescribeDomain").state == "paused"


def test_a_target_that_was_not_released_never_runs_its_guest(place: Place, running: dict[str, LauncherPod]) -> None:
    source = running["here"]
    target, wire = begin(place, source, "m-3")
    with pytest.raises(grpc.RpcError) as refused:
        release(target, "m-3")
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    # The answer that all has come is lost, as the only one that is due after memory has begun to flow: slowly enough
    # for a test that is kept waiting.
    migrate(place, source, target, "m-3", bandwidth_bytes=8 << 20)
    wait_until(lambda: wire.seen[MEMORY], "memory flows", seconds=60, pause=0.01)
    wire.mute.set()
    wait_coming(target, m.INCOMING_COMPLETE)
    assert leaving(source) == m.OUTGOING_ACTIVE
    with pytest.raises(grpc.RpcError):
        source.call("Unpause")
    # libvirt lets the source go on once it knows that the wire is cut.
    wire.cut()
    wait_leaving(source, m.OUTGOING_KEPT)
    counts_on(source)
    assert last_count(target) == 0
    # What has come is whole, of an earlier moment, and no disk; and then it is gone.
    assert place.claim(target).names() == [ARRIVING, "disk.img"]
    target.call("DiscardIncoming", m.DiscardIncomingRequest(migration_uid="m-3"))
    assert place.claim(target).names() == []
    assert target.wait_exit() == 0


def job_figures(pod: LauncherPod) -> dict[str, int]:
    """What metrics tell of a move."""
    figures = pod.call("GetStats", m.GetStatsRequest(dirty_rate=True)).figures
    return {name: value for name, value in figures.items() if name.startswith("job.")}


def test_a_migration_that_is_ended_leaves_the_guest_where_it_is(place: Place, running: dict[str, LauncherPod]) -> None:
    source = running["here"]
    target, _wire = begin(place, source, "m-4")
    migrate(place, source, target, "m-4", bandwidth_bytes=1 << 20)
    wait_coming(target, m.INCOMING_ARRIVING)
    with pytest.raises(grpc.RpcError, match="moving to another node"):
        source.call("Pause")
    # Before QEMU has counted the first of it there is nothing left.
    begun = wait_until(lambda: (found := job_figures(source)).get("job.data_remaining") and found, "how far it is")
    assert begun["job.data_total"] >= begun["job.data_remaining"]
    assert begun["job.data_total"] > 1 << 20, "disks come first"
    hold(source, "m-4")
    source.call("AbortMigration", m.AbortMigrationRequest(migration_uid="m-4"))
    wait_leaving(source, m.OUTGOING_KEPT)
    wait_coming(target, m.INCOMING_FAILED)
    counts_on(source)
    assert job_figures(source) == {}
    assert target.qemu_pids() == []
    os.kill(target.monitor_pid(), signal.SIGTERM)
    assert target.wait_exit() == 0
    assert place.claim(target).names() == []


def test_a_disk_that_finds_no_room_stays_with_its_guest(place: Place, running: dict[str, LauncherPod]) -> None:
    source = running["here"]
    claim = place.claims.small(SIZE + MIB)
    target, _wire = begin(place, source, "m-full", claim)
    # Somebody else fills it after it was looked at.
    (claim.image.parent / "filler").write_bytes(bytes(SIZE))
    migrate(place, source, target, "m-full")
    wait_leaving(source, m.OUTGOING_KEPT)
    assert "No space left on device" in source.call("GetDomain").outgoing.message
    counts_on(source)
    target.call("DiscardIncoming", m.DiscardIncomingRequest(migration_uid="m-full"))
    assert claim.names() == ["filler"]


def test_a_source_launcher_killed_on_the_way_keeps_its_guest(place: Place, running: dict[str, LauncherPod]) -> None:
    source = running["here"]
    device = place.claims.device(SIZE, at=MIB // 2)
    target, _wire = begin(place, source, "m-5", device)
    migrate(place, source, target, "m-5", bandwidth_bytes=1 << 20)
    wait_coming(target, m.INCOMING_ARRIVING)
    hold(source, "m-5")
    kill_launcher(source)
    owned(source)
    wait_leaving(source, m.OUTGOING_KEPT)
    counts_on(source)
    wait_coming(target, m.INCOMING_FAILED)
    # What a device has of a guest that does not come is nothing that begins there.
    target.call("DiscardIncoming", m.DiscardIncomingRequest(migration_uid="m-5"))
    assert not any(device.read()[:MIB])


def test_a_target_launcher_killed_before_the_release_still_has_its_guest(
    place: Place, running: dict[str, LauncherPod]
) -> None:
    source = running["here"]
    target, wire = begin(place, source, "m-6")
    migrate(place, source, target, "m-6")
    wait_leaving(source, m.OUTGOING_GONE)
    left = last_count(source)
    for number in range(2):
        # The second time libvirt's daemon goes, too.
        if number:
            for pid, name in target.processes().items():
                if name.startswith("libvirtd"):
                    kill(pid)
        kill_launcher(target)
        wait_coming(target, m.INCOMING_COMPLETE)
    release(target, "m-6")
    owned(target)
    counts_beyond(target, left)
    wire.close()
    running["here"] = target

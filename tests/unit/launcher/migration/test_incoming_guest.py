"""A guest that comes: what is written before it runs, and what a launcher that was killed in between still knows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kvedge.launcher.disks.prepared import Prepared
from kvedge.launcher.launcher_errors import BadRequest, ClaimUnusable, Unanswered, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.migration.incoming_guest import IncomingGuest
from kvedge.launcher.migration.migration_record import MigrationRecord
from kvedge.resources.disks.claim_places import STATE_VOLUME
from kvedge.resources.names import SWITCHED_NETWORKS
from kvedge.rpc import launcher_pb2 as m
from kvedge.storage.arriving_mark import ARRIVING
from tests.support.values import replace

ARRIVING_GUEST = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.MIGRATING)
WAITS = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.USER, is_persistent=True)
RUNS = DomainFacts(uuid="u", life=Life.RUNNING, why=Why.UNPAUSED, is_persistent=True)


class PlayedPod:
    """The daemon, the preparation and the mark of one Pod; a launcher that starts again finds them as they are."""

    def __init__(self, directory: Path) -> None:
        self.store = MigrationRecord(str(directory))
        self.directory = directory
        self.refusal: ClaimUnusable | None = None
        self.iso = directory / "seed.iso"
        self.iso.write_bytes(b"iso")
        self.found: DomainFacts | None = None
        self.begun_unix_ms = 0
        self.daemons = 0
        self.broken = self.stays_broken = False
        self.locked = False
        self.told: list[str] = []
        self.ended = 0
        # UEFI's, as QEMU has them, and their file.
        self.variables: tuple[str, bytes] | None = None
        # Whether the mark was there when the guest was let run.
        self.unpaused: list[bool] = []

    def launcher(self, uid: str = "m-1") -> IncomingGuest:
        """Another launcher."""
        return IncomingGuest(uid, self.store, self, self, self.connect, self.publish, self.end, str(self.directory))

    libvirt_version = 9_000_000

    def connect(self) -> PlayedPod:
        self.daemons += 1
        self.broken = self.stays_broken
        return self

    def prepare(
        self, request: m.SyncRequest, libvirt_version: int, copied: Mapping[str, int] | None = None
    ) -> Prepared:
        if self.refusal is not None:
            raise self.refusal
        for volume in copied or {}:
            make_copy(self.directory, volume)
        source = f"<source file='{self.iso}'/><target dev='vda'/><alias name='ua-seed'/>"
        return Prepared(f"<domain><devices><disk device='disk'>{source}</disk></devices></domain>", paused=False)

    def facts(self) -> DomainFacts | None:
        if self.broken:
            raise Unanswered("client socket is closed")
        return self.found

    def unpause(self) -> None:
        if self.locked:
            raise Unanswered("the image's lock is not free")
        self.unpaused.append(self.begun_unix_ms > 0)
        self.found = RUNS

    def read_variables(self, below: str) -> tuple[str, bytes] | None:
        return self.variables if self.variables is not None and self.variables[0].startswith(below) else None

    def destroy(self, *, graceful: bool) -> None:
        self.found = None

    def begin(self) -> None:
        self.begun_unix_ms = 1

    def publish(self, status: m.DomainStatus) -> m.DomainStatus:
        self.told.append(m.IncomingState.Name(status.incoming.state).removeprefix("INCOMING_"))
        return status

    def end(self) -> None:
        self.ended += 1


def place_of(directory: Path, volume: str) -> Path:
    """Where the claim of a volume is in the Pod."""
    return directory / "var/run/kubevirt-private/vmi-disks" / volume


def make_copy(directory: Path, volume: str) -> None:
    """As the preparation does for a disk that is to come."""
    place = place_of(directory, volume)
    place.mkdir(parents=True)
    (place / "disk.img").write_bytes(b"half")
    (place / ARRIVING).write_text("u m-1\n")


@pytest.fixture
def pod(tmp_path: Path) -> PlayedPod:
    return PlayedPod(tmp_path)


def prepared(pod: PlayedPod, size: int = 0) -> IncomingGuest:
    """A launcher that listens."""
    guest = pod.launcher()
    request = m.PrepareIncomingRequest(migration_uid="m-1", image_bytes={"seed": size} if size else {})
    assert guest.prepare(request).incoming.state == m.INCOMING_READY
    return guest


def copying(pod: PlayedPod) -> IncomingGuest:
    """A launcher that listens for a guest with a disk that is copied."""
    guest = pod.launcher()
    guest.prepare(m.PrepareIncomingRequest(migration_uid="m-1", copied_disk_bytes={"data": 512}))
    return guest


def test_the_nics_that_come_to_another_network_are_remembered(pod: PlayedPod) -> None:
    marks = {SWITCHED_NETWORKS: json.dumps({"lan": "", "dmz": "", "old": "shop/blue"})}
    vmi = json.dumps({"metadata": {"annotations": marks}}).encode()
    pod.launcher().prepare(m.PrepareIncomingRequest(migration_uid="m-1", guest=m.SyncRequest(vmi_json=vmi)))
    pod.found = WAITS
    pod.launcher().release("m-1", paused=False)
    assert pod.store.switched_nics() == {"lan", "dmz"}


CAME = replace(WAITS, copied_by="m-1", copied=("data",))


def test_a_copied_disk_is_one_from_the_release_on(pod: PlayedPod) -> None:
    guest = copying(pod)
    place = place_of(pod.directory, "data")
    pod.found = CAME
    guest.look()
    assert sorted(os.listdir(place)) == [ARRIVING, "disk.img"]
    assert guest.release("m-1", paused=False).incoming.state == m.INCOMING_OWNED
    assert (os.listdir(place), pod.unpaused) == (["disk.img"], [True])


def test_disks_are_accepted_while_the_guest_waits_and_are_dropped_no_more(pod: PlayedPod) -> None:
    guest = copying(pod)
    with pytest.raises(WrongState):
        guest.accept_disks("m-1")
    pod.found = CAME
    assert guest.accept_disks("m-1").incoming.state == m.INCOMING_COMPLETE
    assert (os.listdir(place_of(pod.directory, "data")), pod.unpaused) == (["disk.img"], [])
    # Whatever is left beside it: from here on it may be all that there is of the disk.
    (place_of(pod.directory, "data") / ARRIVING).write_text("u m-1\n")
    pod.launcher().discard("m-1", "it has ended")
    assert "disk.img" in os.listdir(place_of(pod.directory, "data"))


def test_variables_of_uefi_are_in_their_file_before_the_guest_runs(pod: PlayedPod) -> None:
    guest, file = prepared(pod), place_of(pod.directory, STATE_VOLUME) / "web_VARS.fd"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"template")
    pod.found, pod.variables = WAITS, (str(file), b"the keys")
    assert guest.accept_disks("m-1").incoming.state == m.INCOMING_COMPLETE
    assert (file.read_bytes(), pod.unpaused) == (b"the keys", [])


def test_a_guest_whose_variables_end_with_the_run_does_not_wait_for_them(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found, pod.variables = WAITS, (str(pod.directory / "web_VARS.fd"), b"the keys")
    assert guest.accept_disks("m-1").incoming.state == m.INCOMING_COMPLETE
    assert not (pod.directory / "web_VARS.fd").exists()


@pytest.mark.parametrize("content", [None, b"of another size"], ids=["no file", "another file"])
def test_a_guest_whose_variables_cannot_be_kept_waits(pod: PlayedPod, content: bytes | None) -> None:
    guest, file = prepared(pod), place_of(pod.directory, STATE_VOLUME) / "web_VARS.fd"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_bytes(content)
    pod.found, pod.variables = WAITS, (str(file), b"the keys")
    with pytest.raises(WrongState, match="variables of UEFI"):
        guest.accept_disks("m-1")
    assert (guest.look().incoming.state, pod.unpaused) == (m.INCOMING_COMPLETE, [])
    assert content is None or file.read_bytes() == content


def test_a_launcher_killed_after_a_disk_was_accepted_accepts_it_again(pod: PlayedPod) -> None:
    copying(pod)
    (place_of(pod.directory, "data") / ARRIVING).unlink()
    pod.found = CAME
    assert pod.launcher().release("m-1", paused=False).incoming.state == m.INCOMING_OWNED


@pytest.mark.parametrize(
    "found", [None, ARRIVING_GUEST, CAME], ids=["nothing came", "half of it came", "it came whole"]
)
def test_nothing_is_left_of_the_disks_of_a_guest_that_is_not_wanted(pod: PlayedPod, found: DomainFacts | None) -> None:
    guest = copying(pod)
    pod.found = found
    guest.discard("m-1", "it stays")
    assert (os.listdir(place_of(pod.directory, "data")), pod.found) == ([], None)


def test_the_disks_of_a_whole_guest_stay_where_nobody_has_said_that_there_are_others(pod: PlayedPod) -> None:
    guest = copying(pod)
    pod.found = CAME
    guest.discard("m-1", "told to go", keeps_disks=True)
    # A handler that sees it fail repeats that it is not wanted.
    for launcher in (guest, pod.launcher()):
        launcher.discard("m-1", "it has failed")
    place = place_of(pod.directory, "data")
    assert (pod.found, sorted(os.listdir(place))) == (None, [ARRIVING, "disk.img"])
    with pytest.raises(WrongState):
        guest.release("m-1", paused=False)


def test_half_a_guest_leaves_nothing_of_its_disks(pod: PlayedPod) -> None:
    guest = copying(pod)
    pod.found = ARRIVING_GUEST
    guest.discard("m-1", "told to go", keeps_disks=True)
    assert (pod.found, os.listdir(place_of(pod.directory, "data"))) == (None, [])


def test_what_was_found_and_refused_is_not_dropped(pod: PlayedPod) -> None:
    place = place_of(pod.directory, "data")
    place.mkdir(parents=True)
    (place / "disk.img").write_bytes(b"another guest's")
    pod.refusal = ClaimUnusable("f", "c", "it holds data")
    with pytest.raises(ClaimUnusable):
        copying(pod)
    pod.launcher().discard("m-1", "it stays")
    assert (place / "disk.img").read_bytes() == b"another guest's"


@pytest.mark.parametrize(
    "came",
    [WAITS, replace(CAME, copied_by="m-0"), replace(CAME, copied=("data", "more"))],
    ids=["none", "by an earlier migration", "another one, too"],
)
def test_a_guest_that_came_without_its_disks_never_runs(pod: PlayedPod, came: DomainFacts) -> None:
    guest = copying(pod)
    pod.found = came
    assert guest.look().incoming.state == m.INCOMING_FAILED
    assert pod.found is None
    with pytest.raises(WrongState):
        guest.release("m-1", paused=False)
    assert "awaited" in pod.launcher().look().incoming.message
    assert ARRIVING in os.listdir(place_of(pod.directory, "data"))


def test_isos_become_as_large_as_those_of_the_source(pod: PlayedPod) -> None:
    prepared(pod, 4096)
    assert pod.iso.read_bytes() == b"iso" + bytes(4093)


@pytest.mark.parametrize("size", [-1, 1 << 40])
def test_no_iso_becomes_as_large_as_anybody_likes(pod: PlayedPod, size: int) -> None:
    with pytest.raises(BadRequest, match=r"image_bytes\[seed\]"):
        prepared(pod, size)
    assert pod.iso.read_bytes() == b"iso"
    assert not pod.store.incoming().prepared


def test_no_daemon_is_started_before_something_is_prepared(pod: PlayedPod) -> None:
    pod.launcher().look()
    assert (pod.daemons, pod.told) == (0, ["EMPTY"])


def test_a_guest_waits_until_it_is_released_and_the_mark_is_there_before_it_runs(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = ARRIVING_GUEST
    guest.look()
    with pytest.raises(WrongState, match="on its way"):
        guest.release("m-1", paused=False)
    pod.found = WAITS
    guest.look()
    assert not pod.unpaused
    assert guest.release("m-1", paused=False).incoming.state == m.INCOMING_OWNED
    assert (pod.unpaused, pod.ended, pod.told[1:]) == ([True], 1, ["ARRIVING", "COMPLETE", "OWNED"])
    assert not pod.store.incoming().goes_on
    # A repeated order finds it so; no other order undoes it.
    guest.release("m-1", paused=False)
    with pytest.raises(WrongState, match="was released"):
        guest.discard("m-1", "given up")
    assert (pod.unpaused, pod.found) == ([True], RUNS)


def test_a_guest_that_may_not_run_yet_is_left_to_the_launcher_that_owns_it(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found, pod.locked = WAITS, True
    for _ in range(2):
        assert guest.release("m-1", paused=False).incoming.state == m.INCOMING_OWNED
    # It starts now, and finds what is to be done.
    assert (pod.ended, guest.is_over, pod.store.incoming().goes_on) == (1, True, True)


def test_a_launcher_whose_mark_is_made_goes_on_whatever_fails_after_it(
    pod: PlayedPod, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = prepared(pod)
    pod.found = WAITS

    def begin() -> None:
        pod.begun_unix_ms = 1
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pod, "begin", begin)
    with pytest.raises(OSError, match="No space"):
        guest.release("m-1", paused=False)
    assert (pod.ended, guest.is_over, pod.store.incoming().goes_on) == (1, True, True)


def test_no_daemon_is_started_again_beside_the_launcher_that_owns_the_guest(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = WAITS
    guest.release("m-1", paused=False)
    pod.broken = True
    assert guest.look().incoming.state == m.INCOMING_OWNED
    assert pod.daemons == 1


def test_a_guest_that_a_user_had_paused_stays_paused(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = WAITS
    guest.release("m-1", paused=True)
    assert (pod.unpaused, pod.store.incoming().goes_on, guest.is_released) == ([], False, True)


def test_the_next_launcher_finds_a_guest_that_waits(pod: PlayedPod) -> None:
    prepared(pod)
    pod.found = WAITS
    guest = pod.launcher()
    assert guest.look().incoming.state == m.INCOMING_COMPLETE
    guest.release("m-1", paused=False)
    assert pod.unpaused == [True]


def test_a_guest_that_came_and_went_does_not_come_again(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = ARRIVING_GUEST
    guest.look()
    pod.found = None
    told = guest.look().incoming
    assert (told.state, told.message) == (m.INCOMING_FAILED, "the guest did not come whole; the source knows why")
    assert pod.launcher().look().incoming.state == m.INCOMING_FAILED


def test_a_guest_that_is_not_wanted_is_ended(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = WAITS
    told = guest.discard("m-1", "given up").incoming
    assert (pod.found, told.state, told.message, guest.is_over) == (None, m.INCOMING_FAILED, "given up", True)
    with pytest.raises(WrongState):
        guest.release("m-1", paused=False)


def test_what_has_come_unseen_is_not_ended_by_an_order_for_when_nothing_came(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = WAITS
    with pytest.raises(WrongState, match="has come here meanwhile"):
        guest.discard("m-1", "given up", if_nothing_came=True)
    # Whoever gave the order hears what is here, and decides anew.
    assert (pod.found, guest.is_over, pod.told[-1]) == (WAITS, False, "COMPLETE")
    guest.release("m-1", paused=False)
    assert pod.unpaused == [True]


def test_nothing_is_given_up_while_libvirt_does_not_say_whether_something_came(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.broken = pod.stays_broken = True
    with pytest.raises(Unanswered):
        guest.discard("m-1", "given up", if_nothing_came=True)
    assert not guest.is_over


def test_where_nothing_came_nothing_is_awaited_any_more(pod: PlayedPod) -> None:
    guest = prepared(pod)
    for _ in range(2):
        told = guest.discard("m-1", "given up", if_nothing_came=True).incoming
        assert (told.state, told.message, guest.is_over) == (m.INCOMING_FAILED, "given up", True)


def test_a_guest_that_runs_without_a_release_is_ended(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = RUNS
    assert guest.look().incoming.state == m.INCOMING_FAILED
    assert pod.found is None


def test_a_daemon_that_ended_is_started_again(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found, pod.broken = WAITS, True
    assert guest.look().incoming.state == m.INCOMING_COMPLETE
    assert pod.daemons == 2


def test_another_migration_is_refused(pod: PlayedPod) -> None:
    guest = prepared(pod)
    pod.found = WAITS
    for order in (
        lambda: guest.release("m-2", paused=False),
        lambda: guest.discard("m-2", "given up"),
        lambda: guest.prepare(m.PrepareIncomingRequest(migration_uid="m-2")),
    ):
        with pytest.raises(WrongState, match="started for migration m-1"):
            order()
    assert pod.found == WAITS

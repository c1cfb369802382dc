"""A guest moves between two real kubelets' nodes with its disk, which k3s's own storage keeps on one node at a time.

One guest for all of it: each test leaves it running on some node.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.moved_volumes import VOLUMES_CHANGE
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import condition
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.volumes import Volume
from tests.support.box import processes
from tests.support.cluster.counting_guest import CountingGuest, counting_vm, slow_policy
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.local_path import DIRECTORY
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), pytest.mark.incremental]

NAME = "carrier"
CLAIM = "carried"
SLOWLY = "slowly"
# What the guest leaves alone once it is written; its count is on the first page.
_KEPT_FROM = 1 << 20
_WRITE_ONCE = """
if dd if=/dev/vdd bs=4096 skip=256 count=1 2>/dev/null | head -n 1 | grep -q kept; then
    echo "found what was kept" >/dev/console
else
    { echo kept; dd if=/dev/urandom bs=4096 count=2048; } 2>/dev/null | dd of=/dev/vdd bs=4096 seek=256 conv=fsync
fi
"""


def local_claim(name: str) -> JsonObject:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def carrier(local_path: LocalCluster) -> Iterator[CountingGuest]:
    """It counts, and has written what it keeps."""
    local_path.apply(local_claim(CLAIM), counting_vm(NAME, local_path.image, CLAIM, _WRITE_ONCE))
    try:
        local_path.wait_phase(NAME, "Running")
        guest = CountingGuest(local_path, NAME)
        with guest.log_on(guest.node) as log:
            wait_until(lambda: len(log.counts()) > 1, "the guest counts", 90, 0.2)
        yield guest
    finally:
        local_path.remove_vm(NAME)
        for claim in local_path.client.list(PersistentVolumeClaim, local_path.namespace):
            if claim.metadata.name.startswith(CLAIM):
                local_path.kubectl("delete", "pvc", claim.metadata.name)


def claim_in(volumes: list[Volume]) -> str | None:
    return claim_of(next(volume for volume in volumes if volume.name == "shared"))


def wanted(guest: CountingGuest) -> str | None:
    """The claim that its VM names."""
    template = guest.cluster.vm(NAME).spec.template
    assert template is not None
    return claim_in(template.spec.volumes)


def image(guest: CountingGuest, claim: str) -> Path:
    """The file of a claim's disk, as this machine's file system has it."""
    places = [node.directory / DIRECTORY.lstrip("/") for node in guest.cluster.nodes.values()]
    (found,) = (path for place in places for path in place.glob(f"pvc-*_{guest.cluster.namespace}_{claim}"))
    return found / "disk.img"


def kept(path: Path) -> str:
    """A digest of all that the guest does not write any more."""
    with path.open("rb") as file:
        file.seek(_KEPT_FROM)
        assert file.readline() == b"kept\n"
        return hashlib.file_digest(file, "sha256").hexdigest()


def count_in(path: Path) -> int:
    with path.open("rb") as file:
        return int(file.readline())


def check_moved(guest: CountingGuest, target: str, old: str) -> None:
    """It runs there on another claim than before, with all that it ever wrote, and nothing is left to do."""
    guest.wait_only_on(target)
    guest.wait_counts_on()
    new = claim_in(guest.vmi.spec.volumes)
    assert new is not None
    assert wanted(guest) == new != old
    assert guest.vmi.status.migrated_volumes == []
    wait_until(
        lambda: condition(guest.vmi.status.conditions, VOLUMES_CHANGE) is None, "no claims are exchanged any more", 30
    )
    wait_until(lambda: guest.cluster.vm(NAME).status.volume_update_state is None, "the VM says so, too", 30)
    left, written = count_in(image(guest, old)), count_in(image(guest, new))
    assert left < written
    assert kept(image(guest, new)) == kept(image(guest, old))
    wait_until(lambda: count_in(image(guest, new)) > written, "it writes to its new disk", 30, 0.2)
    # What was left behind is as it was.
    assert count_in(image(guest, old)) == left
    assert guest.cluster.client.get(PersistentVolumeClaim, guest.cluster.namespace, old).status.phase == "Bound"


def follow(guest: CountingGuest, *phases: str, apart_from: str = "") -> VirtualMachineInstanceMigration:
    """The migration that is made for the guest, in one of these phases."""

    def find() -> VirtualMachineInstanceMigration | None:
        return next((found for found in guest.open_migrations() if found.metadata.name != apart_from), None)

    made = wait_until(find, "a migration is made", 60, 0.2)
    return guest.wait_migration(made.metadata.name, *phases)


def test_a_guest_on_local_path_moves_with_its_disk_and_starts_on_it_again(carrier: CountingGuest) -> None:
    guest, cluster = carrier, carrier.cluster
    source, target = guest.node, guest.other_node
    before = guest.vmi
    old = claim_in(before.spec.volumes)
    assert old is not None
    told = cluster.cli("migrate", NAME, "--with-disks", "--wait").stdout
    assert f"VM {NAME} moved from {source} to {target} in " in told
    assert f"kvedge delete pvc {old}" in told
    check_moved(guest, target, old)
    assert guest.vmi.metadata.uid == before.metadata.uid
    new = claim_in(guest.vmi.spec.volumes)
    assert new is not None
    cluster.cli("restart", NAME)
    again = cluster.wait_new_run(before)
    # The volume is on that node alone.
    assert again.status.node_name == target
    assert claim_in(again.spec.volumes) == new
    with guest.log_on(target) as log:
        wait_until(lambda: len(log.counts()) > 1, "the guest counts anew", 90, 0.2)
        assert b"found what was kept" in log.text()
    assert kept(image(guest, new)) == kept(image(guest, old))


def test_a_guest_whose_target_is_killed_while_its_disk_is_copied_stays_and_moves_later(carrier: CountingGuest) -> None:
    guest, cluster = carrier, carrier.cluster
    source, target = guest.node, guest.other_node
    old = claim_in(guest.vmi.spec.volumes)
    assert old is not None
    cluster.apply(slow_policy(SLOWLY))
    try:
        cluster.cli("migrate", NAME, "--with-disks")
        new = wanted(guest)
        assert new is not None
        made = follow(guest, "Running")
        wait_until(lambda: guest.qemus_on(target), "the guest is on its way", 30)
        wait_until(lambda: image(guest, new).stat().st_blocks > 0, "the disk is copied", 30)
        launchers = [pid for pid, command in processes() if made.metadata.uid in command]
        assert launchers
        for pid in launchers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        guest.wait_migration(made.metadata.name, "Failed")
    finally:
        cluster.kubectl("delete", "migrationpolicy", SLOWLY)
    guest.wait_only_on(source)
    assert claim_in(guest.vmi.spec.volumes) == old
    guest.wait_counts_on()
    again = follow(guest, "Succeeded", apart_from=made.metadata.name)
    assert again.metadata.uid != made.metadata.uid
    check_moved(guest, target, old)
    assert wanted(guest) == new

"""A running VM moves from one box to another, which know nothing of each other, and its disk comes along."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.moves.crossing import CREDENTIALS_NAMESPACE, CROSSING_PORT, MOVED_TO, MOVES_TO
from kvedge.resources.types.core import Secret
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
SLOW = 240.0
CLAIM = "data"
# The guest writes a word of this run on its disk, and counts in its memory.
WRITES = (
    "#!/bin/sh\n"
    "mkdir -p /www\n"
    "word=$(cat /proc/sys/kernel/random/uuid)\n"
    "disk=$(ls -d /dev/vd? | tail -1)\n"
    "for each in /dev/vd?; do [ $(cat /sys/block/${each#/dev/}/size) = 131072 ] && disk=$each; done\n"
    "echo $word | dd of=$disk bs=512 count=1 conv=sync,fsync 2>/dev/null\n"
    '(n=0; while :; do n=$((n+1)); echo "$word $n $(dd if=$disk bs=512 count=1 iflag=direct 2>/dev/null | head -1)"'
    " > /www/run.new; mv /www/run.new /www/run; sleep 1; done) >/dev/null 2>&1 &\n"
)


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Box, Box]]:
    first, second = tmp_path_factory.mktemp("boxone"), tmp_path_factory.mktemp("boxtwo")
    with guest_box(first, "10.97.24.0/24", IMAGE) as one, guest_box(second, "10.97.25.0/24", IMAGE) as two:
        yield one, two


def crossing_vm(name: str) -> JsonObject:
    """A guest with a disk on a claim."""
    vm = small_vm(name, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}]
    spec["domain"]["devices"]["disks"] += [
        {"name": "data", "disk": {"bus": "virtio"}},
        {"name": "seed", "disk": {"bus": "virtio"}},
    ]
    spec["volumes"] += [
        {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}},
        {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "seed"}}},
    ]
    return vm


def claim() -> JsonObject:
    """64 MiB for it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
    }


def seed() -> JsonObject:
    """What the guest does, in a Secret that has to come along."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "seed"}, "stringData": {"userdata": WRITES}}


def said(box: Box, name: str) -> list[str]:
    """The guest's page: its word, its count, and the word on its disk."""
    vmi = box.vmi(name)
    assert vmi is not None
    address = vmi.status.interfaces[0].ip_address
    done = subprocess.run(["curl", "-sfm", "3", f"http://{address}/run"], capture_output=True, text=True, check=False)
    return done.stdout.split()


def own_address() -> str:
    """An address of this machine that is not its loopback's."""
    found = json.loads(subprocess.run(["ip", "-j", "-4", "addr"], capture_output=True, text=True, check=True).stdout)
    every = [each["local"] for link in found for each in link["addr_info"] if each.get("scope") == "global"]
    return str(every[0])


def listens() -> bool:
    """Whether any box has the port open at which guests of others come."""
    found = subprocess.run(["ss", "-Htln", f"sport = :{CROSSING_PORT}"], capture_output=True, text=True, check=True)
    return bool(found.stdout.strip())


def test_a_running_vm_moves_to_another_box_with_its_disk(boxes: tuple[Box, Box]) -> None:
    one, two = boxes
    for document in (claim(), seed(), crossing_vm("rover")):
        one.apply(document)
    before = one.wait_phase("rover", "Running", SLOW)
    first = wait_until(lambda: len(found := said(one, "rover")) == 3 and found, "the guest tells its word", SLOW)
    assert first[0] == first[2]
    to = ("--to", str(two.kubeconfig), "--to-address", own_address())
    assert not listens()
    moved = one.cli("migrate", "rover", *to, "--wait", "--timeout", "110", check=False)
    assert moved.returncode == 0, moved.stderr + one.told("rover") + two.told("rover") + two.log_tail()
    assert f"VM rover moved to {own_address()}" in moved.stdout
    after = two.wait_phase("rover", "Running", SLOW)
    now = wait_until(lambda: len(found := said(two, "rover")) == 3 and found, "the guest tells its word there", SLOW)
    # The same run, with its memory and its disk.
    assert now[0] == first[0] == now[2]
    assert int(now[1]) > int(first[1])
    old, new = before.spec.domain, after.spec.domain
    assert new.firmware is not None
    assert old.firmware is not None
    assert new.firmware.uuid == old.firmware.uuid
    assert new.devices.interfaces[0].mac_address == old.devices.interfaces[0].mac_address
    wait_until(lambda: two.vm("rover").run_strategy == "Always", "it is to run there")
    stopped = wait_until(lambda: (vm := one.vm("rover")).run_strategy == "Halted" and vm, "it is halted here")
    assert stopped.metadata.annotations[MOVED_TO] == own_address()
    assert MOVES_TO not in stopped.metadata.annotations
    one.wait_gone("rover")
    assert one.qemu_pids(before.metadata.uid) == []
    assert len(two.qemu_pids(after.metadata.uid)) == 1
    assert one.client.get(PersistentVolumeClaim, "default", CLAIM).status.phase == "Bound"
    wait_until(lambda: one.client.list(Secret, CREDENTIALS_NAMESPACE) == [], "the target's kubeconfig is forgotten")
    wait_until(lambda: not listens(), "the target listens no more", 30.0)
    refused = one.cli("start", "rover", check=False)
    assert refused.returncode != 0
    assert "it has moved to" in refused.stderr
    assert "migrate rover --forget" in refused.stderr


def test_what_is_in_the_way_is_told_at_once(boxes: tuple[Box, Box]) -> None:
    """With the names that are taken; nothing is made then."""
    one, two = boxes
    two.apply({**claim(), "metadata": {"name": "taken"}})
    vm = crossing_vm("stuck")
    vm["spec"]["template"]["spec"]["volumes"][1]["persistentVolumeClaim"]["claimName"] = "taken"
    one.apply({**claim(), "metadata": {"name": "taken"}})
    one.apply(vm)
    one.wait_phase("stuck", "Running", SLOW)
    refused = one.cli("migrate", "stuck", "--to", str(two.kubeconfig), "--to-address", own_address(), check=False)
    assert refused.returncode != 0
    assert "the target has a claim taken already" in refused.stderr
    with pytest.raises(NotFound):
        two.vm("stuck")
    assert one.vm("stuck").metadata.annotations.get(MOVES_TO) is None
    local = one.cli("migrate", "stuck", "--to", str(two.kubeconfig), check=False)
    assert "give --to-address" in local.stderr
    one.remove_vm("stuck")

"""What is reserved beside a guest's memory is enough for a Pod that may not have a byte more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.values.quantities import parse_bytes
from tests.support.box import Box, processes
from tests.support.guest import build_guest
from tests.support.guest_load import fetch_pages, fill_memory, use_disks
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
IMAGE = "local/overhead:1"
_MIB = 1 << 20


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("overhead") / "data", "10.105.44.0/24", log_level="info")
    made.data_dir.parent.chmod(0o755)
    made.data_dir.mkdir()
    try:
        made.import_image(build_guest().disk, IMAGE)
        made.start()
        yield made
    finally:
        made.remove()


def a_vm(name: str, memory: str, vcpus: int, disks: list[str]) -> JsonObject:
    made = hotplug_vm(name, IMAGE)
    spec: Any = made["spec"]["template"]["spec"]
    spec["domain"]["memory"] = {"guest": memory}
    # The Pod's limit is this and what is reserved, from its first process on.
    spec["domain"]["resources"] = {"requests": {"memory": memory}, "limits": {"memory": memory}}
    spec["domain"]["cpu"] = {"cores": vcpus}
    for disk in disks:
        spec["domain"]["devices"]["disks"].append({"name": disk, "disk": {"bus": "virtio"}})
        spec["volumes"].append({"name": disk, "persistentVolumeClaim": {"claimName": disk}})
    return made


class PodGroup:
    """The cgroup of a Pod's memory, of either version."""

    def __init__(self, pid: int) -> None:
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        ours = next((path for _, names, path in lines if "memory" in names.split(",")), None)
        self.is_v1 = ours is not None
        path = ours or next(path for number, _, path in lines if number == "0")
        self.folder = Path("/sys/fs/cgroup", *(["memory"] if self.is_v1 else []), path.lstrip("/"))

    @property
    def limit(self) -> Path:
        """The file with the most that it may have: the kernel kills what is in it rather than give it more."""
        return self.folder / ("memory.limit_in_bytes" if self.is_v1 else "memory.max")

    def kills(self) -> int:
        """How many processes the kernel has killed for it."""
        text = (self.folder / ("memory.oom_control" if self.is_v1 else "memory.events")).read_text()
        return int(dict(line.split() for line in text.splitlines())["oom_kill"])


def qemu_of(name: str) -> int:
    (pid,) = (pid for pid, command in processes() if any(f"guest=default_{name}," in word for word in command))
    return pid


@pytest.mark.parametrize(
    ("name", "memory", "vcpus", "disks"),
    [("small", 256, 1, 0), ("wide", 512, 4, 3)],
    ids=["one vCPU", "four vCPUs and three disks"],
)
def test_a_guest_that_uses_all_it_has_is_not_killed(box: Box, name: str, memory: int, vcpus: int, disks: int) -> None:
    claims = [f"{name}-{number}" for number in range(disks)]
    for claim in claims:
        box.apply(a_claim(claim))
    box.apply(a_vm(name, f"{memory}Mi", vcpus, claims))
    vmi = box.wait_phase(name, "Running")
    assert vmi.status.memory is not None
    overhead = parse_bytes(vmi.status.memory.memory_overhead or 0)
    qemu = qemu_of(name)
    group = PodGroup(qemu)
    assert int(group.limit.read_text()) == memory * _MIB + overhead
    guest = HotplugGuest(box, name)
    box.wait_answer(name)
    fill_memory(guest, memory * _MIB)
    box.apply(a_claim(f"{name}-late"))
    guest.add(f"{name}-late")
    wait_until(lambda: guest.disk(f"{name}-late"), "the guest has one disk more")
    use_disks(guest)
    fetch_pages(guest)
    box.cli("vnc", "screenshot", name, "--file", str(box.data_dir / "picture.png"))
    assert group.kills() == 0
    assert qemu_of(name) == qemu
    box.remove_vm(name)


def test_a_pod_that_gets_less_is_killed(box: Box) -> None:
    """What the others pass would not tell anything on a host whose kernel keeps no limit."""
    box.apply(a_vm("starved", "256Mi", 1, []))
    box.wait_phase("starved", "Running")
    box.wait_answer("starved")
    qemu = qemu_of("starved")
    PodGroup(qemu).limit.write_text(str(256 * _MIB))
    guest, size = HotplugGuest(box, "starved"), 256 * _MIB

    def fill() -> None:
        # The guest's answer never comes.
        with contextlib.suppress(AssertionError):
            fill_memory(guest, size)

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    wait_until(lambda: not Path(f"/proc/{qemu}").exists(), "the kernel has killed it")
    box.remove_vm("starved")

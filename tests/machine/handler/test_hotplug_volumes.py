"""Hotplugged volumes that the handler hands to the launcher and takes back, with real namespaces, mounts and nodes.

A handler that is killed at a step leaves what that step has done: the steps are named in `volume_hand_over`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.volumes import volume_hand_over
from tests.machine.agent.containers import host_mounts
from tests.machine.handler.hotplug_pod import USER, HotplugPod, hotplug_pod

DEVICE = os.makedev(7, 77)
STILL_OPEN = "Volume data is still open in QEMU; it is tried again, and a restart of the VM frees it"


class Killed(BaseException):
    """The handler ends here."""


@pytest.fixture
def pod(tmp_path: Path, tree: Path) -> Iterator[HotplugPod]:
    with hotplug_pod(tmp_path, tree) as made:
        yield made
    assert host_mounts(tmp_path) == [], "something is left on the host"


def test_a_claim_without_an_image_gets_one_of_the_guest_s_user_and_is_handed_over(pod: HotplugPod) -> None:
    pod.attach("data")
    seen = pod.hand_over()
    assert (seen.present, dict(seen.troubles)) == ({"data"}, {})
    image = (pod.claim("data") / "disk.img").stat()
    assert (image.st_size, image.st_blocks, image.st_uid, image.st_gid) == (64 << 20, 0, USER, USER)
    assert stat.S_IMODE(image.st_mode) == 0o660
    handed = pod.seen("data.img").stat()
    assert (handed.st_dev, handed.st_ino) == (image.st_dev, image.st_ino)
    assert pod.mounted() == ["data.img"]
    # And once more, which changes nothing.
    assert pod.hand_over().present == {"data"}
    assert pod.mounted() == ["data.img"]


def test_an_image_that_is_there_is_used_as_it_is(pod: HotplugPod) -> None:
    image = pod.claim("data") / "disk.img"
    image.write_bytes(b"a guest's data")
    image.chmod(0o600)
    pod.attach("data")
    assert pod.hand_over().present == {"data"}
    assert pod.seen("data.img").read_bytes() == b"a guest's data"
    facts = image.stat()
    assert (facts.st_uid, stat.S_IMODE(facts.st_mode)) == (0, 0o600), "never given to somebody else"


@pytest.mark.parametrize("kind", ["a link", "a hidden link", "a directory", "a fifo", "an empty file"])
def test_what_a_claim_holds_is_not_believed(pod: HotplugPod, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host")
    image = pod.claim("data") / "disk.img"
    if kind == "a link":
        image.symlink_to(secret)
    elif kind == "a hidden link":
        image.symlink_to("../../secret")
    elif kind == "a directory":
        image.mkdir()
    elif kind == "a fifo":
        os.mkfifo(image)
    else:
        image.touch()
    pod.attach("data")
    pod.attach("good")
    seen = pod.hand_over()
    assert seen.present == {"good"}
    assert "disk.img" in seen.troubles["data"]
    assert pod.mounted() == ["good.img"]
    assert secret.read_bytes() == b"of the host"


def test_a_fifo_where_the_image_is_made_stops_no_handler(pod: HotplugPod) -> None:
    os.mkfifo(pod.claim("data") / ".disk.img.hotplug")
    pod.attach("data")
    assert pod.hand_over().present == {"data"}
    assert os.listdir(pod.claim("data")) == ["disk.img"]
    assert (pod.claim("data") / "disk.img").stat().st_size == 64 << 20


def test_a_claim_that_the_guest_s_user_cannot_write_is_told_and_nothing_is_made_as_root(pod: HotplugPod) -> None:
    os.chown(pod.claim("data", 0o755), 0, 0)
    pod.attach("data")
    os.chown(pod.path / "claims" / "data", 0, 0)
    seen = pod.hand_over()
    assert "cannot be made by user 107" in seen.troubles["data"]
    assert os.listdir(pod.path / "claims" / "data") == []
    os.chown(pod.path / "claims" / "data", 0, USER)
    (pod.path / "claims" / "data").chmod(0o2770)
    assert pod.hand_over().present == {"data"}


def test_a_volume_whose_pod_does_not_run_waits_and_holds_up_no_other_one(pod: HotplugPod) -> None:
    pod.wanted["late"] = "pod-late"
    pod.attach("good")
    seen = pod.hand_over()
    assert seen.present == {"good"}
    assert "attachment Pod does not run" in seen.troubles["late"]
    pod.attach("late")
    assert pod.hand_over().present == {"good", "late"}


def test_the_guest_keeps_its_disk_when_the_attachment_pod_dies_and_another_one_comes(pod: HotplugPod) -> None:
    pod.attach("data")
    pod.hand_over()
    with pod.seen("data.img").open("r+b") as opened:
        before = pod.mounted()
        pod.end("pod-data")
        assert pod.hand_over().present == {"data"}
        pod.attach("data", pod="pod-data-again")
        assert pod.hand_over().present == {"data"}
        assert pod.mounted() == before
        opened.write(b"written")
    assert (pod.claim("data") / "disk.img").read_bytes().startswith(b"written")


def test_a_volume_is_taken_back_only_when_the_domain_has_let_go_of_it(pod: HotplugPod) -> None:
    pod.attach("data")
    pod.attach("kept")
    pod.hand_over()
    del pod.wanted["data"]
    assert pod.take_back("data", "kept").present == {"data", "kept"}
    with pod.seen("data.img").open("rb"):
        # The domain says that it has none, and QEMU is still closing it.
        seen = pod.take_back("kept")
        assert (seen.present, dict(seen.troubles)) == ({"data", "kept"}, {"data": STILL_OPEN})
    seen = pod.take_back("kept")
    assert (seen.present, dict(seen.troubles), seen.is_followed) == ({"kept"}, {}, True)
    assert pod.mounted() == ["kept.img"]
    assert os.listdir(pod.place) == ["kept.img"]


def test_a_device_becomes_a_node_of_the_guest_s_user_and_goes_again(pod: HotplugPod) -> None:
    pod.attach("disk", device=DEVICE)
    assert pod.hand_over().present == {"disk"}
    node = pod.seen("disk").lstat()
    assert stat.S_ISBLK(node.st_mode)
    assert (node.st_rdev, node.st_uid, node.st_gid, stat.S_IMODE(node.st_mode)) == (DEVICE, USER, USER, 0o660)
    pod.wanted.clear()
    assert pod.take_back().present == frozenset()
    assert os.listdir(pod.place) == []


@pytest.mark.parametrize("given", [0, os.makedev(7, 78)], ids=["none", "another one"])
def test_a_device_that_the_kubelet_did_not_give_to_the_pod_is_refused(pod: HotplugPod, given: int) -> None:
    pod.attach("forged", device=DEVICE, given=given)
    pod.attach("good", device=DEVICE)
    seen = pod.hand_over()
    assert seen.present == {"good"}
    assert "device 7:77 in its attachment Pod is none that the kubelet gave" in seen.troubles["forged"]
    assert os.listdir(pod.place) == ["good"]


FILE_STEPS = ["make_image", "hold_claim_image", "copy_mount", "attach_mount"]
DEVICE_STEPS = ["allow_device", "os.mknod", "os.chown", "os.rename"]
BACK_STEPS = ["unmount", "deny_device", "os.unlink"]


def _kill_at(step: str, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
    where: Any = os if step.startswith("os.") else volume_hand_over
    name = step.removeprefix("os.")
    original: Callable[..., Any] = getattr(where, name)

    def ends(*arguments: Any, **options: Any) -> Any:
        if after:
            original(*arguments, **options)
        raise Killed

    monkeypatch.setattr(where, name, ends)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", [*FILE_STEPS, *DEVICE_STEPS])
def test_a_handler_killed_while_it_hands_over_goes_on(
    pod: HotplugPod, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool
) -> None:
    pod.attach("data", device=DEVICE if step in DEVICE_STEPS else 0)
    with monkeypatch.context() as patched:
        _kill_at(step, patched, after=after)
        with pytest.raises(Killed):
            pod.hand_over()
    assert pod.hand_over().present == {"data"}
    assert len(pod.mounted()) == (step in FILE_STEPS)
    pod.wanted.clear()
    assert pod.take_back().present == frozenset()
    assert (os.listdir(pod.place), pod.mounted()) == ([], [])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", BACK_STEPS)
def test_a_handler_killed_while_it_takes_back_goes_on(
    pod: HotplugPod, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool
) -> None:
    pod.attach("data", device=0 if step == "unmount" else DEVICE)
    pod.hand_over()
    pod.wanted.clear()
    with monkeypatch.context() as patched:
        _kill_at(step, patched, after=after)
        with pytest.raises(Killed):
            pod.take_back()
    assert pod.take_back().present == frozenset()
    assert (os.listdir(pod.place), pod.mounted()) == ([], [])


def test_a_volume_given_up_half_way_leaves_nothing(pod: HotplugPod, monkeypatch: pytest.MonkeyPatch) -> None:
    pod.attach("data")
    with monkeypatch.context() as patched:
        _kill_at("attach_mount", patched, after=False)
        with pytest.raises(Killed):
            pod.hand_over()
    assert os.listdir(pod.place) == ["data.img"]
    pod.wanted.clear()
    pod.take_back()
    assert os.listdir(pod.place) == []


@pytest.mark.parametrize("step", ["allow_device", "os.chown"])
@pytest.mark.parametrize("comes", [False, True], ids=["given up", "another device"])
def test_a_killed_handler_s_rule_does_not_outlive_its_device(
    pod: HotplugPod, monkeypatch: pytest.MonkeyPatch, step: str, *, comes: bool
) -> None:
    pod.attach("data", device=DEVICE)
    with monkeypatch.context() as patched:
        _kill_at(step, patched, after=True)
        with pytest.raises(Killed):
            pod.hand_over()
    denied: list[int] = []
    monkeypatch.setattr(volume_hand_over, "deny_device", lambda launcher, device: denied.append(device))
    pod.wanted.clear()
    if comes:
        pod.attach("data", device=os.makedev(7, 78), pod="pod-data-again")
        assert pod.hand_over().present == {"data"}
    else:
        pod.take_back()
        assert os.listdir(pod.place) == []
    assert denied == [DEVICE]


def test_a_device_cgroup_of_version_1_gets_the_rule_and_loses_it(pod: HotplugPod) -> None:
    root = Path("/sys/fs/cgroup/devices")
    if not (root / "devices.list").exists():
        pytest.skip("this host has no device cgroups of version 1")
    group = root / f"kvt{os.getpid()}"
    group.mkdir()
    try:
        (group / "devices.deny").write_text("a")
        (group / "cgroup.procs").write_text(str(pod.launcher))
        pod.attach("disk", device=DEVICE)
        assert pod.hand_over().present == {"disk"}
        assert (group / "devices.list").read_text() == "b 7:77 rw\n"
        pod.wanted.clear()
        pod.take_back()
        assert (group / "devices.list").read_text() == ""
    finally:
        with HeldProcess.of(pod.launcher):
            (root / "cgroup.procs").write_text(str(pod.launcher))
        group.rmdir()

"""The real QEMU guest agent in a real guest: what it says, freezing, and its coming and going."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.launcher.agent.guest_agent_message import REQUIRED_COMMANDS
from kvedge.resources.names import IGNITION
from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import agent_image, agent_vmi, in_guest
from tests.support.launcher_pod import GUEST_ADDRESS, GUEST_MAC, LauncherPod, kill, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine
CONFIG = json.dumps({"ignition": {"version": "3.4.0"}, "passwd": {"users": [{"name": "größe"}]}}, ensure_ascii=False)


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[LauncherPod]:
    """One guest for all tests here: each leaves it thawed, with its agent."""
    image = agent_image(tmp_path_factory.mktemp("image"))
    directory = tmp_path_factory.mktemp("agent")
    with launcher_pod(directory, seed=seed, images={"kernel-boot": image}) as started:
        vmi = agent_vmi(started)
        vmi["metadata"]["annotations"] = {IGNITION: CONFIG}
        started.sync(vmi, network=True)
        wait_until(lambda: told(started).guest.os_id, "what the agent says", seconds=60, pause=0.1)
        yield started


@pytest.fixture(autouse=True)
def _thawed(pod: LauncherPod) -> Iterator[None]:
    yield
    pod.call("Unfreeze")


def told(pod: LauncherPod) -> Any:
    return pod.call("GetDomain")


def freeze(pod: LauncherPod, seconds: int) -> Any:
    return pod.call("Freeze", m.FreezeRequest(unfreeze_seconds=seconds))


def promise(pod: LauncherPod) -> Path:
    return pod.directory / "private" / pod.uid / "freeze.json"


def start_writing(pod: LauncherPod) -> None:
    """Have the guest write to the disk that can be frozen; /run/written is there once it could."""
    in_guest(pod, "rm -f /run/written; (echo x >/data/x && sync && touch /run/written) >/dev/null 2>&1 &")


def has_written(pod: LauncherPod) -> bool:
    return in_guest(pod, "ls /run/written 2>/dev/null; true") == "/run/written\n"


def test_the_guest_and_its_addresses_are_in_the_status(pod: LauncherPod) -> None:
    def agents() -> Any:
        found = [entry for entry in told(pod).addresses if entry.source == "guest-agent"]
        return found[0] if found and found[0].addresses else None

    entry = wait_until(agents, "the agent's addresses", seconds=30)
    assert (entry.interface, entry.guest_name, entry.mac) == ("default", "eth0", GUEST_MAC)
    assert entry.addresses[0] == GUEST_ADDRESS
    status = told(pod)
    assert status.agent_connected
    assert (status.guest.os_id, status.guest.machine, status.agent_trouble) == ("kvedge-guest", "x86_64", "")
    wait_until(lambda: told(pod).fs_freeze_status == "thawed", "the guest is known to be thawed")
    assert list(status.agent_lacks) == []


def test_ignition_finds_its_config_as_it_was_written(pod: LauncherPod) -> None:
    in_guest(pod, "insmod /lib/modules/qemu_fw_cfg.ko")
    assert in_guest(pod, "cat /sys/firmware/qemu_fw_cfg/by_name/opt/com.coreos/config/raw") == CONFIG


def test_all_facts_of_the_guest(pod: LauncherPod) -> None:
    info = pod.call("GetGuestInfo")
    assert info.fs_freeze_status == "thawed"
    assert info.hostname == "web"
    assert info.kernel_release == in_guest(pod, "uname -r").strip()
    assert info.timezone.endswith(", 0")
    assert info.agent_version[:1].isdigit()
    assert set(REQUIRED_COMMANDS) <= {command.name for command in info.commands if command.enabled}
    assert [mount.mount_point for mount in info.filesystems] == ["/data"]


def test_file_systems_and_their_disks(pod: LauncherPod) -> None:
    (mount,) = wait_until(lambda: pod.call("GetFilesystems").filesystems, "the agent's file systems")
    assert (mount.disk_name, mount.mount_point, mount.type) == ("vda", "/data", "ext2")
    assert 0 < mount.used_bytes < mount.total_bytes < 16 << 20
    assert [disk.bus_type for disk in mount.disks] == ["virtio"]


def test_a_frozen_guest_writes_nothing_until_it_is_thawed(pod: LauncherPod) -> None:
    assert freeze(pod, 300).fs_freeze_status == "frozen"
    assert told(pod).fs_freeze_status == "frozen"
    start_writing(pod)
    # What a frozen agent refuses is not asked, and what it said before is still known.
    assert not has_written(pod)
    assert pod.call("GetGuestInfo").fs_freeze_status == "frozen"
    assert pod.call("GetGuestInfo").hostname == "web"
    assert not has_written(pod)
    assert pod.call("Unfreeze").fs_freeze_status == "thawed"
    wait_until(lambda: has_written(pod), "the guest writes again")
    assert not promise(pod).exists()


def test_a_freeze_ends_by_itself(pod: LauncherPod) -> None:
    begun = time.monotonic()
    freeze(pod, 2)
    start_writing(pod)
    assert not has_written(pod) or time.monotonic() - begun >= 2
    # Asked for again, it is frozen already, and stays so for longer.
    freeze(pod, 3)
    wait_until(lambda: told(pod).fs_freeze_status == "thawed", "it thaws", pause=0.1)
    assert time.monotonic() - begun >= 3
    wait_until(lambda: has_written(pod), "the guest writes again")
    assert not promise(pod).exists()


def test_a_freeze_without_end_waits_for_the_unfreeze(pod: LauncherPod) -> None:
    freeze(pod, 0)
    assert '"thawAt": Infinity' in promise(pod).read_text()
    assert pod.call("Unfreeze").fs_freeze_status == "thawed"


def test_a_launcher_that_dies_leaves_the_promise_to_the_next_one(pod: LauncherPod) -> None:
    freeze(pod, 5)
    start_writing(pod)
    before = pod.launcher_pid()
    kill(before)
    pod.channel.close()
    pod.channel = None
    wait_until(lambda: replaced(pod, before), "another launcher")
    assert told(pod).state == m.DOMAIN_STATE_RUNNING
    wait_until(lambda: told(pod).fs_freeze_status == "thawed", "it thaws", pause=0.1)
    wait_until(lambda: has_written(pod), "the guest writes again")
    assert not promise(pod).exists()
    wait_until(lambda: told(pod).guest.os_id, "the agent is heard by the new launcher")


def test_a_paused_guest_thaws_when_it_goes_on(pod: LauncherPod) -> None:
    freeze(pod, 1)
    pod.call("Pause")
    with pytest.raises(grpc.RpcError) as refused:
        freeze(pod, 1)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    wait_until(lambda: overdue(pod), "the end of the freeze has passed", pause=0.1)
    assert told(pod).fs_freeze_status == "frozen"
    pod.call("Unpause")
    wait_until(lambda: told(pod).fs_freeze_status == "thawed", "it thaws", pause=0.1)


def test_an_agent_that_goes_and_comes_is_told(pod: LauncherPod) -> None:
    assert list(pod.call("GetUsers").users) == []
    in_guest(pod, "killall qemu-ga")
    wait_until(lambda: not told(pod).agent_connected, "the agent is gone")
    gone = told(pod)
    assert (gone.HasField("guest"), gone.fs_freeze_status) == (False, "")
    assert {entry.source for entry in gone.addresses} <= {"lease"}
    for method in ("GetGuestInfo", "GetUsers", "GetFilesystems", "Freeze"):
        with pytest.raises(grpc.RpcError) as refused:
            pod.call(method)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.value.details() == "the QEMU guest agent is not connected"
    before = int(in_guest(pod, "date +%s"))
    log_in(pod)
    in_guest(pod, "qemu-ga -d -p /dev/vport*")
    wait_until(lambda: told(pod).agent_connected and told(pod).guest.os_id, "the agent is back")
    (user,) = pod.call("GetUsers").users
    assert (user.name, user.domain) == ("ann", "")
    assert before <= user.login_unix_seconds <= before + 60


def log_in(pod: LauncherPod) -> None:
    """As a user without password, at the console."""
    in_guest(pod, "echo 'ann::1000:1000:ann:/:/bin/sh' >>/etc/passwd; echo 'ann::19000:0:99999:7:::' >>/etc/shadow")
    console = pod.console()
    console.send("")
    console.expect(b"login: ")
    console.send("ann")
    console.expect(b"$ ")
    console.close()


def test_the_screen_is_a_picture(pod: LauncherPod) -> None:
    in_guest(pod, "for line in 1 2 3 4 5; do echo kvedge >/dev/tty0; done")
    request = m.ScreenshotRequest(move_cursor=True)
    data = b"".join(chunk.data for chunk in pod.stub.Screenshot(request, timeout=20))
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert data.endswith(b"IEND\xaeB`\x82")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    assert width >= 640
    assert height >= 400
    # Several at once wait for each other, and a viewer that leaves leaves nothing behind.
    calls = [pod.stub.Screenshot(request, timeout=20) for _ in range(3)]
    calls[0].cancel()
    for call in calls[1:]:
        assert b"".join(chunk.data for chunk in call).startswith(b"\x89PNG")


def replaced(pod: LauncherPod, before: int) -> bool:
    try:
        return pod.launcher_pid() != before
    except OSError:
        return False


def overdue(pod: LauncherPod) -> bool:
    return float(json.loads(promise(pod).read_text())["thawAt"]) < time.clock_gettime(time.CLOCK_BOOTTIME)

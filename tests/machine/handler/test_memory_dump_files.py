"""The file of a dump, with real namespaces and mounts: made in the claim, handed over, named, taken back."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.volumes.claim_image import ImageRefused
from kvedge.handler.volumes.memory_dump_files import hand_over_dump
from kvedge.resources.codec import decode
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.machine.agent.containers import host_mounts
from tests.machine.handler.hotplug_pod import USER, HotplugPod, hotplug_pod

VMI = "22222222-2222-2222-2222-222222222222"
PARTIAL = f".{VMI}.memory.dump.partial"
FIRST, SECOND = "web-dumps-20260102-030405.memory.dump", "web-dumps-20260102-040506.memory.dump"


@pytest.fixture
def pod(tmp_path: Path, tree: Path) -> Iterator[HotplugPod]:
    with hotplug_pod(tmp_path, tree) as made:
        yield made
    assert host_mounts(tmp_path) == [], "something is left on the host"


@pytest.fixture
def claim(pod: HotplugPod) -> Path:
    pod.attach("dumps")
    return pod.claim("dumps")


def vmi(*, wanted: bool = True) -> VirtualMachineInstance:
    volumes = [{"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}] if wanted else []
    entry = {
        "name": "dumps",
        "target": "",
        "phase": "AttachedToNode",
        "hotplugVolume": {"attachPodName": "hp", "attachPodUID": "pod-dumps"},
    }
    return decode(
        VirtualMachineInstance,
        {
            "metadata": {"name": "web", "namespace": "default", "uid": VMI},
            "spec": {"domain": {"memory": {"guest": "1Mi"}}, "volumes": volumes},
            "status": {"volumeStatus": [entry]},
        },
    )


def hand_over(pod: HotplugPod) -> frozenset[str]:
    with HeldProcess.of(pod.launcher) as launcher:
        seen = pod.volumes.hand_over(vmi(), launcher)
    assert dict(seen.troubles) == {}
    return seen.present


def take_back(pod: HotplugPod, status: pb.DomainStatus | None = None) -> tuple[frozenset[str], dict[str, str]]:
    with HeldProcess.of(pod.launcher) as launcher:
        seen = pod.volumes.take_back(vmi(wanted=False), status or pb.DomainStatus(), launcher)
    return seen.present, dict(seen.troubles)


def write(pod: HotplugPod, content: bytes) -> None:
    pod.seen("dumps.dump").write_bytes(content)


def test_a_dump_is_written_through_the_launcher_and_named_in_the_claim(pod: HotplugPod, claim: Path) -> None:
    assert hand_over(pod) == {"dumps"}
    made = (claim / PARTIAL).stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (USER, USER, 0o600)
    assert pod.mounted() == ["dumps.dump"], "the file alone, and nothing else of the claim"
    # Once more, which changes nothing.
    assert hand_over(pod) == {"dumps"}
    assert pod.mounted() == ["dumps.dump"]
    write(pod, b"first")
    for _ in range(2):
        pod.volumes.finish_dump(VMI, "pod-dumps", FIRST)
        assert {path.name: path.read_bytes() for path in claim.iterdir()} == {FIRST: b"first"}
    assert take_back(pod) == (frozenset(), {})
    assert pod.mounted() == []
    assert not pod.seen("dumps.dump").exists()


def test_the_earlier_dump_goes_once_the_new_one_is_whole(pod: HotplugPod, claim: Path) -> None:
    (claim / FIRST).write_bytes(b"first")
    (claim / "disk.img").write_bytes(b"no dump")
    hand_over(pod)
    write(pod, b"second")
    assert (claim / FIRST).read_bytes() == b"first"
    pod.volumes.finish_dump(VMI, "pod-dumps", SECOND)
    assert sorted(os.listdir(claim)) == ["disk.img", SECOND]


def test_what_was_not_written_to_its_end_is_no_dump(pod: HotplugPod, claim: Path) -> None:
    (claim / FIRST).write_bytes(b"first")
    hand_over(pod)
    with pytest.raises(ImageRefused, match="nothing was written"):
        pod.volumes.finish_dump(VMI, "pod-dumps", SECOND)
    write(pod, b"half")
    pod.volumes.discard_dump(VMI, "pod-dumps")
    assert os.listdir(claim) == [FIRST]
    with pytest.raises(ImageRefused, match="has gone"):
        pod.volumes.finish_dump(VMI, "pod-dumps", SECOND)
    for name in ("../x.memory.dump", "disk.img"):
        with pytest.raises(ImageRefused, match="no name of a dump"):
            pod.volumes.finish_dump(VMI, "pod-dumps", name)
    with pytest.raises(ProcessLookupError):
        pod.volumes.finish_dump(VMI, "pod-of-another-claim", SECOND)


def test_a_claim_without_room_gives_up_its_earlier_dumps_and_is_refused_when_that_is_not_enough(
    pod: HotplugPod, claim: Path
) -> None:
    free = os.statvfs(claim).f_bavail * os.statvfs(claim).f_bsize
    (claim / FIRST).write_bytes(b"first")
    (claim / "disk.img").write_bytes(b"no dump")
    with (
        HeldProcess.of(pod.launcher) as launcher,
        HeldProcess.of(pod_process(pod, claim)) as source,
        pytest.raises(ImageRefused, match="free in the claim"),
    ):
        hand_over_dump("dumps", VMI, 2 * free, source, launcher)
    assert os.listdir(claim) == ["disk.img"]
    assert pod.mounted() == []


def pod_process(pod: HotplugPod, claim: Path) -> int:
    """The process of the attachment Pod: the one that has this claim, and not one of another test's."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.path.samefile(Path("/proc") / name / "root/pvc", claim) and int(name) != pod.launcher:
                return int(name)
        except OSError:
            continue
    raise AssertionError("no attachment Pod")


def test_what_runs_of_before_have_left_is_deleted_and_what_is_being_written_stays(pod: HotplugPod, claim: Path) -> None:
    old, new = claim / ".old.memory.dump.partial", claim / ".new.memory.dump.partial"
    for path in (old, new, claim / PARTIAL):
        path.write_bytes(b"x")
        os.chown(path, USER, USER)
    os.utime(old, (time.time() - 7200,) * 2)
    hand_over(pod)
    assert sorted(os.listdir(claim)) == sorted([new.name, PARTIAL])
    assert (claim / PARTIAL).stat().st_size == 0


@pytest.mark.parametrize("kind", ["a link", "a directory"])
def test_what_stands_in_a_dump_s_place_is_not_written(pod: HotplugPod, claim: Path, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"of the host")
    if kind == "a link":
        (claim / PARTIAL).symlink_to(secret)
        assert hand_over(pod) == {"dumps"}
        write(pod, b"dump")
    else:
        (claim / PARTIAL).mkdir()
        with HeldProcess.of(pod.launcher) as launcher:
            assert "dumps" in pod.volumes.hand_over(vmi(), launcher).troubles
    assert secret.read_bytes() == b"of the host"


def test_a_claim_that_the_launcher_s_user_may_not_write_is_told_with_the_remedy(pod: HotplugPod, claim: Path) -> None:
    os.chown(claim, 0, 0)
    claim.chmod(0o700)
    with HeldProcess.of(pod.launcher) as launcher:
        seen = pod.volumes.hand_over(vmi(), launcher)
    assert "have it belong to group 107 with mode 0770" in seen.troubles["dumps"]
    assert os.listdir(claim) == []


def test_a_file_that_is_open_is_taken_back_later(pod: HotplugPod, claim: Path) -> None:
    hand_over(pod)
    with pod.seen("dumps.dump").open("wb"):
        present, troubles = take_back(pod)
        assert present == {"dumps"}
        assert "still open" in troubles["dumps"]
    assert take_back(pod) == (frozenset(), {})


def test_the_place_of_a_handler_that_was_killed_is_taken_back(pod: HotplugPod, claim: Path) -> None:
    pod.seen("dumps.dump").touch()
    assert take_back(pod) == (frozenset(), {})
    assert not pod.seen("dumps.dump").exists()

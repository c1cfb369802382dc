from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.work_queue import Key
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import Container, Pod
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.pod_record import PodRecordError, new_record, write_pod_record
from tests.support.builders import plain_pod as pod


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-00000000000{number}"


def _pod(name: str, uid: str) -> Pod:
    made = pod()
    made.metadata = ObjectMeta(name=name, namespace="ns", uid=uid)
    return made


def _take_on(pods: LocalPods, name: str, uid: str, owner: str) -> LocalPod:
    made = _pod(name, uid)
    record = new_record(made)
    record.owner, record.address = owner, "10.0.0.2"
    return pods.take_on(made, record)


def test_what_was_begun_is_known_after_a_restart(tmp_path: Path) -> None:
    taken = _take_on(LocalPods(tmp_path), "p", uid(1), "vm")
    assert LocalPods(tmp_path).adopt() == []
    write_pod_record(taken.files, taken.record)
    (found,) = LocalPods(tmp_path).adopt()

    assert (found.key, found.record, found.files) == (Key("ns", "p"), taken.record, taken.files)
    assert found.in_the_way


def test_two_pods_of_one_name_are_told_apart_by_uid(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    one, two = _take_on(pods, "p", uid(1), "vm"), _take_on(pods, "p", uid(2), "other")

    assert pods.find(Key("ns", "p")) == [one, two]
    pods.forget(uid(1))
    assert pods.find(Key("ns", "p")) == [two]


def test_other_pods_of_an_image_count_while_they_may_run(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    one, two, other = (_take_on(pods, name, uid(number), "") for number, name in enumerate(("a", "b", "c")))
    for local, image in ((one, "launcher"), (two, "launcher"), (other, "web")):
        local.pod.spec.containers = [Container(name="c", image=image)]
    assert pods.count_others(one, "launcher") == 0
    for local in (one, two, other):
        local.released = False

    assert [pods.count_others(local, "launcher") for local in (one, two, other)] == [1, 1, 2]


def test_an_address_is_in_use_until_its_pod_is_forgotten(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    taken = _take_on(pods, "p", uid(1), "vm")
    taken.released = True
    pods.take_on(_pod("host", uid(2)), new_record(_pod("host", uid(2))))

    assert pods.addresses() == {"10.0.0.2"}
    pods.forget(uid(1))
    assert pods.addresses() == frozenset()


def test_only_one_pod_of_a_vm_gets_its_turn(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    first, second = _take_on(pods, "a", uid(1), "vm"), _take_on(pods, "b", uid(2), "vm")
    other = _take_on(pods, "c", uid(3), "another vm")

    assert pods.claim(second) == "ns/a"
    assert pods.claim(first) == ""
    assert pods.claim(second) == "ns/a"
    assert pods.claim(other) == ""
    first.released, first.in_the_way = True, False
    assert pods.claim(second) == ""


def test_the_one_that_has_begun_goes_first_whatever_the_order(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    late = _take_on(pods, "b", uid(2), "vm")
    assert pods.claim(late) == ""
    early = _take_on(pods, "a", uid(1), "vm")

    assert pods.claim(early) == "ns/b"
    assert pods.predecessor(late) == ""


def test_after_a_restart_the_one_that_had_begun_goes_first(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    late = _take_on(pods, "b", uid(2), "vm")
    write_pod_record(late.files, late.record)
    again = LocalPods(tmp_path)
    found = {local.files.uid: local for local in again.adopt()}

    assert list(found) == [uid(2)]
    early = _take_on(again, "a", uid(1), "vm")
    assert again.claim(early) == "ns/b"
    assert again.claim(found[uid(2)]) == ""


def test_pods_in_the_host_s_network_have_no_owner_and_wait_for_nobody(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    one, two = _take_on(pods, "a", uid(1), ""), _take_on(pods, "b", uid(2), "")

    assert (pods.claim(one), pods.claim(two)) == ("", "")


DAMAGED = {
    "empty": b"",
    "cut": b'{"format": 1, "pod": {"metadata"',
    "no text": b"\xff\x00\xfe",
    "a list": b"[]",
    "no Pod": b"{}",
    "no such Pod": b'{"pod": {"spec": {"containers": 3}}}',
    "another Pod": b'{"pod": {"metadata": {"name": "a", "uid": "00000000-0000-4000-8000-000000000099"}}}',
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_record_keeps_no_other_pod_from_being_adopted(tmp_path: Path, content: bytes) -> None:
    pods = LocalPods(tmp_path)
    good = _take_on(pods, "b", uid(2), "vm")
    write_pod_record(good.files, good.record)
    (tmp_path / uid(1)).mkdir()
    (tmp_path / uid(1) / "pod.json").write_bytes(content)
    again = LocalPods(tmp_path)

    assert [local.files.uid for local in again.adopt()] == [uid(2)]
    ((files, why),) = again.list_damaged().items()
    assert files.uid == uid(1)
    assert why.startswith(f"{tmp_path / uid(1)}/pod.json is damaged: ")
    # Its images and all that it has stay until it is known what it was.
    assert again.uids() == {uid(1), uid(2)}
    assert (tmp_path / uid(1) / "pod.json").read_bytes() == content


def test_a_record_of_a_newer_kvedge_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / uid(1)).mkdir()
    (tmp_path / uid(1) / "pod.json").write_bytes(b'{"format": 99, "pod": {}}')

    with pytest.raises(PodRecordError, match=rf"{uid(1)}/pod\.json was written by a newer kvedge"):
        LocalPods(tmp_path).adopt()


@pytest.mark.parametrize("runs", [True, False])
def test_a_directory_without_a_record_is_removed_only_when_nothing_of_it_runs(tmp_path: Path, runs: bool) -> None:
    (tmp_path / uid(1)).mkdir()
    pods = LocalPods(tmp_path, lambda files: runs)

    assert pods.adopt() == []
    assert (tmp_path / uid(1)).exists() == runs
    assert {files.uid for files in pods.list_damaged()} == ({uid(1)} if runs else set())


def test_no_vm_begins_while_a_pod_of_which_nothing_is_known_may_run(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    unknown = pods.make_known(PodFiles(tmp_path / uid(1)), new_record(_pod("", uid(1))))
    unknown.is_unknown = True
    late, other = _take_on(pods, "b", uid(2), "vm"), _take_on(pods, "c", uid(3), "")

    assert pods.claim(late) != ""
    assert pods.claim(other) == ""
    unknown.in_the_way = False
    assert pods.claim(late) == ""


def test_what_is_no_pod_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "note").write_text("of the operator")
    (tmp_path / uid(1)).mkdir()

    assert LocalPods(tmp_path).adopt() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost+found", "note"]


def _launcher(pods: LocalPods, name: str, uid: str, owner: str, vmi: str, namespace: str = "ns") -> LocalPod:
    made = _pod(name, uid)
    reference = OwnerReference(
        api_version="kubevirt.io/v1", kind="VirtualMachineInstance", name=vmi, uid=owner, controller=True
    )
    made.metadata.owner_references, made.metadata.namespace = [reference], namespace
    record = new_record(made)
    record.owner = owner
    return pods.take_on(made, record)


def test_a_vm_that_was_made_anew_waits_for_the_one_before_whatever_its_uid(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    before = _launcher(pods, "a", uid(1), "vm", "disk")
    assert pods.claim(before) == ""

    assert pods.claim(_launcher(pods, "b", uid(2), "made anew", "disk")) == "ns/a"
    assert pods.claim(_launcher(pods, "c", uid(3), "another", "other")) == ""
    assert pods.claim(_launcher(pods, "d", uid(4), "elsewhere", "disk", "other")) == ""


def test_pods_that_have_no_address_of_their_own_do_not_wait_for_each_other(tmp_path: Path) -> None:
    pods = LocalPods(tmp_path)
    for number in (1, 2):
        made = _pod(f"p{number}", uid(number))
        assert pods.claim(pods.take_on(made, new_record(made))) == ""

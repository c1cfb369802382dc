"""Who may change what of a VMI that is there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvedge.api.admission.rules.vmi_update_rules import update_is_allowed
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import MIGRATION_TARGET_NODE, NODE_NAME
from kvedge.resources.role_users import HANDLER_ACCOUNT, UserInfo
from tests.support.builders import put, small_vmi

ALICE = UserInfo("alice", ("system:masters",))
CONTROLLER = UserInfo("kvedge:controller", ("kvedge:controllers",))
HANDLER = UserInfo("kvedge:handler:node1", ("kvedge:handlers",))
TARGET = UserInfo("kvedge:handler:node2", ("kvedge:handlers",))
IN_CLUSTER = UserInfo(
    HANDLER_ACCOUNT, ("system:serviceaccounts",), extra={"authentication.kubernetes.io/node-name": ["node1"]}
)


def on_node(node: str) -> JsonObject:
    vmi = small_vmi()
    vmi["status"] = {"phase": "Running", "nodeName": node}
    return vmi


def causes(user: UserInfo, path: str, value: object, node: str = "node1") -> list[str]:
    old = on_node(node)
    new = copy.deepcopy(old)
    put(new, path, value)
    return [cause.message for cause in update_is_allowed(old, new, user)]


def test_a_user_does_not_change_the_spec() -> None:
    assert causes(ALICE, "spec.domain.cpu.cores", 2) == ["update of VMI object is restricted"]


@pytest.mark.parametrize("label", ["nodeName", "created-by", "migrationTargetNodeName", "schedulable"])
def test_a_user_does_not_change_labels_that_roles_act_on(label: str) -> None:
    found = causes(ALICE, "metadata.labels", {f"kubevirt.io/{label}": "x"})
    text = "modification of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
    assert found == [f"{text}: kubevirt.io/{label}"]


def test_a_user_changes_other_labels() -> None:
    assert causes(ALICE, "metadata.labels", {"team": "blue"}) == []


@pytest.mark.parametrize("user", [ALICE, CONTROLLER, HANDLER], ids=["a user", "the controller", "its handler"])
def test_nobody_changes_the_hook_sidecars_of_a_vmi(user: UserInfo) -> None:
    at = "metadata.annotations[hooks.kubevirt.io/hookSidecars]"
    found = causes(user, "metadata.annotations", {"hooks.kubevirt.io/hookSidecars": '[{"image": "a"}]'})
    assert found == [f"{at}: update of VMI object is restricted; change the VM's template, and restart the VM"]


def test_the_controller_changes_spec_and_status() -> None:
    assert causes(CONTROLLER, "spec.domain.cpu.cores", 2) == []
    assert causes(CONTROLLER, "status.nodeName", "node2") == []


@pytest.mark.parametrize("handler", [HANDLER, IN_CLUSTER], ids=["certificate", "service account"])
def test_a_handler_reports_on_its_own_node(handler: UserInfo) -> None:
    assert causes(handler, "status.phase", "Failed") == []


@pytest.mark.parametrize("handler", [HANDLER, IN_CLUSTER], ids=["certificate", "service account"])
def test_a_handler_does_not_report_on_another_node(handler: UserInfo) -> None:
    found = causes(handler, "status.phase", "Failed", node="node2")
    assert found == ["Node restriction, virt-handler is only allowed to modify VMIs it owns"]


def test_a_handler_does_not_give_a_vmi_away() -> None:
    found = causes(HANDLER, "status.nodeName", "node2")
    assert found == ["Node restriction, virt-handler is not allowed to give a VMI to another node"]


def test_a_handler_does_not_change_the_spec() -> None:
    assert causes(HANDLER, "spec.domain.cpu.cores", 2) == ["update of VMI object is restricted"]


def test_a_handler_that_cannot_say_its_node_writes_nothing() -> None:
    assert causes(UserInfo(HANDLER_ACCOUNT), "status.phase", "Failed") != []


def test_a_user_called_like_a_handler_is_none() -> None:
    pretender = UserInfo("kvedge:handler:node1", ("system:authenticated",))
    assert causes(pretender, "spec.domain.cpu.cores", 2) == ["update of VMI object is restricted"]
    assert not pretender.is_role


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("status.migrationState.targetNode", "node2", "virt-handler is not allowed to set target node"),
        ("metadata.finalizers", [], "virt-handler is not allowed to change finalizers"),
        ("metadata.ownerReferences", [{"uid": "x"}], "virt-handler is not allowed to change ownerReferences"),
    ],
)
def test_a_handler_changes_neither_place_nor_owner(path: str, value: object, text: str) -> None:
    assert causes(HANDLER, path, value) == [f"Node restriction, {text}"]


@pytest.mark.parametrize("label", ["nodeName", "migrationTargetNodeName", "created-by"])
def test_a_handler_does_not_label_a_vmi_away(label: str) -> None:
    (found,) = causes(HANDLER, "metadata.labels", {f"kubevirt.io/{label}": "node2"})
    assert f"kubevirt.io/{label}" in found


def test_a_handler_may_note_something() -> None:
    assert causes(HANDLER, "metadata.annotations", {"kvedge.io/note": "x"}) == []


def moving(**state: object) -> JsonObject:
    """A VMI that moves from node1 to node2."""
    vmi = on_node("node1")
    vmi["metadata"]["labels"] = {NODE_NAME: "node1", MIGRATION_TARGET_NODE: "node2"}
    vmi["status"]["migrationState"] = {"migrationUid": "m", "sourceNode": "node1", "targetNode": "node2", **state}
    return vmi


def moved(old: JsonObject, labels: JsonObject | None = None, node: str = "node2") -> JsonObject:
    """The write by which its target takes it over."""
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {NODE_NAME: "node2"} if labels is None else labels
    new["status"] |= {"nodeName": node, "phase": "Running"}
    new["status"]["migrationState"] |= {"completed": True, "endTimestamp": "2026-01-01T00:00:00Z"}
    return new


def fields(old: JsonObject, new: JsonObject, user: UserInfo) -> list[str]:
    return [str(cause.field) for cause in update_is_allowed(old, new, user)]


@pytest.mark.parametrize("gone", ["sourceNodeDomainGoneTimestamp", "sourcePodGoneTimestamp"])
def test_the_target_takes_a_vmi_over_once_its_source_is_gone(gone: str) -> None:
    before, after = moving(), moving(**{gone: "2026-01-01T00:00:00Z"})
    assert fields(after, moved(after), TARGET) == []
    assert fields(before, moved(before), TARGET)[0] == "status.nodeName"
    assert fields(after, moved(after), HANDLER)[0] == "status.nodeName"
    assert fields(after, moved(after, node="node3"), TARGET)[0] == "status.nodeName"
    assert fields(after, moved(after, labels={NODE_NAME: "node3"}), TARGET) == [f"metadata.labels[{NODE_NAME}]"]


@pytest.mark.parametrize("ended", [{"completed": True}, {"failed": True}, {"migrationUid": ""}])
def test_after_a_migration_its_target_has_nothing_to_say(ended: JsonObject) -> None:
    old = moving(**ended, sourcePodGoneTimestamp="2026-01-01T00:00:00Z")
    new = copy.deepcopy(old)
    new["status"]["migrationState"]["targetNodeAddress"] = "192.0.2.1:1"
    assert fields(old, new, TARGET) == ["status.nodeName"]


@pytest.mark.parametrize(
    ("field", "value", "who"),
    [
        ("targetNodeAddress", "192.0.2.1:1", "node2"),
        ("targetNodeDomainDetected", True, "node2"),
        ("startTimestamp", "2026-01-01T00:00:00Z", "node1"),
        ("sourceNodeDomainGoneTimestamp", "2026-01-01T00:00:00Z", "node1"),
        ("abortStatus", "Succeeded", "node1"),
        ("failed", True, "node1"),
        ("completed", True, ""),
        ("endTimestamp", "2026-01-01T00:00:00Z", ""),
        ("failureReason", "no space", ""),
        ("abortRequested", True, ""),
        ("sourcePodGoneTimestamp", "2026-01-01T00:00:00Z", ""),
        ("targetPod", "x", ""),
        ("migrationUid", "x", ""),
    ],
)
def test_each_part_of_a_migrations_state_has_its_writer(field: str, value: object, who: str) -> None:
    old = moving()
    new = copy.deepcopy(old)
    new["status"]["migrationState"][field] = value
    allowed = {user.node for user in (HANDLER, TARGET) if not fields(old, new, user)}
    assert allowed == set(who.split())


FAILED = {"failed": True, "completed": True, "endTimestamp": "2026-01-01T00:00:00Z", "failureReason": "no space"}
GONE = {"sourceNodeDomainGoneTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {"targetTakenTimestamp": "now"}, ["changed"]),
        (GONE, {"targetTakenTimestamp": "now"}, []),
        ({**GONE, "targetTakenTimestamp": "now"}, {"targetTakenTimestamp": "now"}, []),
        ({**GONE, "targetTakenTimestamp": "now"}, {"targetTakenTimestamp": "later"}, ["changed"]),
        ({**GONE, "targetTakenTimestamp": "now"}, {"targetTakenTimestamp": None}, ["changed"]),
    ],
    ids=["too soon", "once the source is gone", "as it was", "another time", "taken back"],
)
def test_that_a_guest_is_taken_is_said_once_and_not_before_its_source_is_gone(
    before: JsonObject, after: JsonObject, found: list[str]
) -> None:
    old = moving(**before)
    at = "status.migrationState.targetTakenTimestamp"
    assert fields(old, ended(old, **after), TARGET) == ([at] if found else [])
    assert fields(old, ended(old, **after), CONTROLLER) == []


def ended(old: JsonObject, **end: object) -> JsonObject:
    new = copy.deepcopy(old)
    new["status"]["migrationState"] |= end
    return new


def test_the_target_ends_a_migration_only_once_its_source_is_gone() -> None:
    assert fields(moving(), ended(moving(), **FAILED), HANDLER) == []
    assert fields(moving(), ended(moving(), **FAILED), TARGET) == ["status.migrationState.completed"]
    left = moving(**GONE)
    assert fields(left, ended(left, **FAILED), TARGET) == []


@pytest.mark.parametrize("user", [HANDLER, TARGET], ids=["source", "target"])
def test_a_guest_has_moved_by_the_write_alone_that_takes_it_over(user: UserInfo) -> None:
    for old in (moving(), moving(**GONE)):
        assert fields(old, ended(old, completed=True), user) == ["status.migrationState.completed"]
    left = moving(**GONE)
    failed = ended(moved(left), failed=True)
    assert "status.nodeName" in fields(left, failed, user)
    running = moved(left)
    del running["status"]["migrationState"]["completed"]
    assert "status.nodeName" in fields(left, running, user)


@pytest.mark.parametrize("end", [{"completed": True}, FAILED, {"migrationUid": ""}])
def test_how_a_migration_ended_stays_as_it_is(end: JsonObject) -> None:
    old = moving(**end)
    new = ended(old, failed=True, failureReason="another")
    assert fields(old, new, HANDLER)[0].startswith("status.migrationState.fail")


@pytest.mark.parametrize("state", [{}, GONE], ids=["the source is there", "the source is gone"])
@pytest.mark.parametrize(("member", "kept"), [("labels", {"team": "blue"}), ("annotations", {"note": "x"})])
def test_a_target_changes_neither_labels_nor_annotations_beside_the_two_of_its_node(
    state: JsonObject, member: str, kept: JsonObject
) -> None:
    old = moving(**state)
    old["metadata"][member] = {**old["metadata"].get(member, {}), **kept}
    for value in ({}, dict.fromkeys(kept, "another"), {**kept, "more": "x"}):
        new = copy.deepcopy(old)
        new["metadata"][member] = {NODE_NAME: "node1", MIGRATION_TARGET_NODE: "node2"} if member == "labels" else {}
        new["metadata"][member] |= value
        assert fields(old, new, TARGET) == ["metadata"]
        assert fields(old, new, HANDLER) == []
    if state:
        taken = moved(old, labels={NODE_NAME: "node2", **(kept if member == "labels" else {})})
        assert fields(old, taken, TARGET) == []


def test_a_target_reports_nothing_else_before_its_source_is_gone() -> None:
    for gone in ({}, {"sourcePodGoneTimestamp": "2026-01-01T00:00:00Z"}):
        old = moving(**gone)
        new = copy.deepcopy(old)
        new["status"]["phase"] = "Failed"
        assert fields(old, new, TARGET) == ([] if gone else ["status"])


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("spec.volumes", [], "Cannot handle volume requests while VMI migration is in progress"),
        ("spec.domain.devices.disks", [], "Cannot handle volume requests while VMI migration is in progress"),
        ("spec.networks", [], "Cannot change interfaces while VMI migration is in progress"),
        ("spec.domain.devices.interfaces", [], "Cannot change interfaces while VMI migration is in progress"),
    ],
)
def test_what_a_guest_has_does_not_change_while_it_moves(path: str, value: object, words: str) -> None:
    for old, refused in ((moving(), True), (moving(completed=True), False), (moving(failed=True), False)):
        old["spec"] |= {"volumes": [{"name": "a", "emptyDisk": {"capacity": "1Gi"}}], "networks": [{"name": "n"}]}
        old["spec"]["domain"]["devices"] |= {"disks": [{"name": "a"}], "interfaces": [{"name": "n"}]}
        new = copy.deepcopy(old)
        put(new, path, value)
        found = [cause.message for cause in update_is_allowed(old, new, CONTROLLER)]
        assert (words in found) is refused


def test_a_guest_that_moves_may_be_stopped_sooner() -> None:
    old = moving()
    new = copy.deepcopy(old)
    new["spec"]["terminationGracePeriodSeconds"] = 1
    assert fields(old, new, CONTROLLER) == []


def exchanging(claim: JsonObject, **more: object) -> list[str]:
    """The causes against the write that takes a VMI over whose disk was copied from `old` to `new`."""
    old = moving(sourceNodeDomainGoneTimestamp="2026-01-01T00:00:00Z")
    old["spec"]["volumes"] = [{"name": "data", "dataVolume": {"name": "old"}}, {"name": "root", "emptyDisk": {}}]
    found = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    old["status"]["migratedVolumes"] = [{"volumeName": "data", **found}]
    new = moved(old)
    new["spec"] |= {"volumes": [{"name": "data", "persistentVolumeClaim": claim}, {"name": "root", "emptyDisk": {}}]}
    new["spec"] |= more
    return fields(old, new, TARGET)


def test_the_write_that_takes_a_vmi_over_names_the_claims_that_its_disks_were_copied_to() -> None:
    assert exchanging({"claimName": "new"}) == []
    assert exchanging({"claimName": "third"}) == ["spec"]
    assert exchanging({"claimName": "new", "readOnly": True}) == ["spec"]
    assert exchanging({"claimName": "new"}, terminationGracePeriodSeconds={}) == ["spec"]
    renamed = [{"name": "data2", "persistentVolumeClaim": {"claimName": "new"}}, {"name": "root", "emptyDisk": {}}]
    assert exchanging({}, volumes=renamed) == ["spec"]
    assert exchanging({}, volumes=renamed[1:]) == ["spec"]


@pytest.mark.parametrize(
    ("gone", "user", "found"), [("", TARGET, ["spec"]), ("now", TARGET, []), ("now", HANDLER, ["spec"])]
)
def test_claims_are_exchanged_by_the_target_alone_and_not_before_the_source_is_gone(
    gone: str, user: UserInfo, found: list[str]
) -> None:
    old = moving(sourceNodeDomainGoneTimestamp=gone)
    old["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "old"}}]
    claims = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    old["status"]["migratedVolumes"] = [{"volumeName": "data", **claims}]
    new = copy.deepcopy(old)
    new["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "new"
    assert fields(old, new, user) == found


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"claim": "third"}, ["spec"]),
        ({"before": "new", "claim": "old"}, []),
        ({"reason": ""}, ["spec"]),
        ({"status": "False"}, ["spec"]),
        ({"user": TARGET}, ["spec"]),
    ],
    ids=["there", "elsewhere", "back", "not in place", "taken back", "another node"],
)
def test_claims_are_exchanged_in_place_by_the_guests_own_node(change: dict[str, Any], found: list[str]) -> None:
    old = on_node("node1")
    old["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": change.get("before", "old")}}]
    claims = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    said = {"type": "VolumesChange", "status": "True", "reason": "InPlace"}
    said |= {name: value for name, value in change.items() if name in said}
    old["status"] |= {"migratedVolumes": [{"volumeName": "data", **claims}], "conditions": [said]}
    new = copy.deepcopy(old)
    new["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = change.get("claim", "new")
    assert set(fields(old, new, change.get("user", HANDLER))) >= set(found)
    assert ("spec" in fields(old, new, change.get("user", HANDLER))) is bool(found)


def test_a_handler_does_not_say_which_claims_volumes_move_to() -> None:
    claims = {"sourcePVCInfo": {"claimName": "old"}, "destinationPVCInfo": {"claimName": "new"}}
    moves = [{"volumeName": "data", **claims}]
    assert fields(*said(on_node("node1"), moves), HANDLER) == ["status.migratedVolumes"]
    assert fields(*said(on_node("node1"), moves), CONTROLLER) == []
    source, _ = reversed(said(on_node("node1"), moves))
    assert fields(*said(source, None), HANDLER) == ["status.migratedVolumes"]
    # The one that takes the VMI over says that they have moved.
    gone = moving(sourceNodeDomainGoneTimestamp="2026-01-01T00:00:00Z")
    gone["status"]["migratedVolumes"] = moves
    assert fields(*said(gone, None), TARGET) == ["status.migratedVolumes"]
    assert fields(gone, said(moved(gone), None)[1], TARGET) == []
    assert fields(gone, said(moved(gone), [*moves, *moves])[1], TARGET) == ["status.migratedVolumes"]


def said(old: JsonObject, moves: list[JsonObject] | None) -> tuple[JsonObject, JsonObject]:
    """A VMI before and after its status says which claims volumes move to."""
    new = copy.deepcopy(old)
    new["status"].pop("migratedVolumes", None)
    if moves is not None:
        new["status"]["migratedVolumes"] = moves
    return old, new


API = UserInfo("kvedge:api", ("kvedge:apis",))
COPIES = (
    ("spec.utilityVolumes", [{"name": "x", "claimName": "theirs", "type": "Backup"}]),
    (
        "status.diskCopy",
        {"name": "x", "volumes": []},
    ),
)


@pytest.mark.parametrize(("path", "value"), COPIES, ids=["volumes", "word"])
def test_the_controller_alone_has_disks_copied(path: str, value: object) -> None:
    assert causes(CONTROLLER, path, value) == []
    for user in (ALICE, API, HANDLER, IN_CLUSTER):
        # Who writes the status of a user is another's affair: what a user writes there is dropped.
        assert any("only kvedge's controller" in text for text in causes(user, path, value))


def test_no_disk_comes_or_goes_while_disks_are_copied() -> None:
    old = on_node("node1")
    old["status"]["diskCopy"] = {"name": "x", "volumes": []}
    new = copy.deepcopy(old)
    new["spec"]["volumes"] = [{"name": "more", "persistentVolumeClaim": {"claimName": "m", "hotpluggable": True}}]
    for user in (CONTROLLER, API):
        said = [cause.message for cause in update_is_allowed(old, new, user)]
        assert "Cannot handle volume requests while disks of the VMI are copied" in said

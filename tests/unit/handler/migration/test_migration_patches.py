"""What handlers write of a migration: all at once, and only into the version that they have read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.handler.migration import migration_patches as patches
from kvedge.kube.errors import Conflict
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import encode
from kvedge.resources.disks.moved_volumes import destinations
from kvedge.resources.names import LAUNCHER_SILENT
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.migration_world import ADDRESS, HERE, THERE, Server, copying_vmi, moving_vmi

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
AT = "2026-05-01T12:00:00Z"


def write(vmi: VirtualMachineInstance, patch: MergePatch) -> VirtualMachineInstance:
    return Server(vmi).patch(None, "", "", patch)


def test_an_adopted_guest_has_its_node_in_label_and_status() -> None:
    vmi = moving_vmi(targetNodeAddress=ADDRESS)
    found = write(vmi, patches.adoption_patch(vmi, THERE, NOW))
    assert found.status.node_name == THERE
    assert found.metadata.labels == {"kubevirt.io/nodeName": THERE}
    state = found.status.migration_state
    assert state is not None
    assert (state.completed, state.failed, state.end_timestamp) == (True, False, AT)
    assert (state.target_node_domain_detected, state.target_node_domain_ready_timestamp) == (True, AT)
    # What others have written stays.
    assert (state.target_node_address, state.source_node) == (ADDRESS, HERE)


@pytest.mark.parametrize(("marked", "left"), [(HERE, ""), ("node-c", "node-c")])
def test_the_mark_of_a_node_that_was_to_be_left_goes_with_it(marked: str, left: str) -> None:
    vmi = moving_vmi(status={"evacuationNodeName": marked})
    assert write(vmi, patches.adoption_patch(vmi, THERE, NOW)).status.evacuation_node_name == left


def test_what_was_said_of_a_silent_launcher_is_not_said_of_the_next_one() -> None:
    silent = {"type": "Synchronized", "status": "False", "reason": LAUNCHER_SILENT}
    ready = {"type": "Ready", "status": "True"}
    patch = patches.adoption_patch(moving_vmi(status={"conditions": [silent, ready]}), THERE, NOW)
    assert [item["type"] for item in patch.body["status"]["conditions"]] == ["Ready"]
    assert (
        "conditions"
        not in patches.adoption_patch(moving_vmi(status={"conditions": [ready]}), THERE, NOW).body["status"]
    )


def test_a_lost_guest_is_a_run_that_failed() -> None:
    vmi = moving_vmi()
    found = write(vmi, patches.loss_patch(vmi, "nowhere", NOW))
    state = found.status.migration_state
    assert state is not None
    assert (found.status.phase, found.status.reason) == ("Failed", "nowhere")
    assert (state.failed, state.completed, state.failure_reason) == (True, True, "nowhere")
    assert found.status.phase_transition_timestamps[-1].phase == "Failed"


def test_a_guest_that_stays_says_why() -> None:
    vmi = moving_vmi()
    state = write(vmi, patches.stay_patch(vmi, "too slow", "Succeeded", NOW)).status.migration_state
    assert state is not None
    assert (state.failed, state.completed, state.end_timestamp) == (True, True, AT)
    assert (state.failure_reason, state.abort_status) == ("too slow", "Succeeded")


@pytest.mark.parametrize("was", [True, False])
@pytest.mark.parametrize("paused", [True, False])
def test_whether_a_user_had_paused_the_guest_is_written_with_its_leaving(was: bool, paused: bool) -> None:
    ready: dict[str, Any] = {"type": "Ready", "status": "True"}
    by_user = {"type": "Paused", "status": "True", "reason": "PausedByUser"}
    vmi = moving_vmi(status={"conditions": [ready, *([by_user] if was else [])]})
    found = write(vmi, patches.left_patch(vmi, paused=paused, status="", now=NOW))
    assert patches.is_paused_by_user(found) is paused
    assert [item.type for item in found.status.conditions] == ["Ready", *(["Paused"] if paused else [])]
    state = found.status.migration_state
    assert state is not None
    assert state.source_node_domain_gone_timestamp == AT


def test_a_guest_that_qemu_has_paused_goes_on_where_it_comes_to() -> None:
    broken = {"type": "Paused", "status": "True", "reason": "PausedIOError"}
    assert not patches.is_paused_by_user(moving_vmi(status={"conditions": [broken]}))


ALL = {
    "begin": lambda vmi: patches.begin_patch(vmi, NOW),
    "abort": lambda vmi: patches.abort_patch(vmi, "Aborting"),
    "stay": lambda vmi: patches.stay_patch(vmi, "no", "", NOW),
    "left": lambda vmi: patches.left_patch(vmi, paused=False, status="Failed", now=NOW),
    "address": lambda vmi: patches.address_patch(vmi, ADDRESS),
    "detection": patches.detection_patch,
    "adoption": lambda vmi: patches.adoption_patch(vmi, THERE, NOW),
    "loss": lambda vmi: patches.loss_patch(vmi, "nowhere", NOW),
}


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_written_over_what_was_not_read(name: str) -> None:
    vmi = moving_vmi()
    server = Server(vmi)
    server.change(abortRequested=True)
    with pytest.raises(Conflict):
        server.patch(None, "", "", ALL[name](vmi))


def test_a_guest_has_the_claims_that_its_disks_were_copied_to_before_it_is_adopted() -> None:
    vmi = copying_vmi()
    exchanged = write(vmi, patches.exchange_patch(vmi))
    assert (exchanged.status.node_name, destinations(exchanged)) == (HERE, {})
    found = write(exchanged, patches.adoption_patch(exchanged, THERE, NOW))
    assert encode(found.spec.volumes[0]) == {"name": "data", "persistentVolumeClaim": {"claimName": "new"}}
    assert found.status.migrated_volumes == []
    info = found.status.volume_status[0].persistent_volume_claim_info
    assert info is not None
    assert info.claim_name == "new"
    assert [item.type for item in found.status.conditions] == ["Ready"]

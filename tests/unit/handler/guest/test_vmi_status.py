"""The patch that reports a VMI's status."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.handler.guest.vmi_status import GuestNic, Observation, SyncFailure, status_patch
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.phases import PhaseError
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with

MOBILITY = ("LiveMigratable", "StorageLiveMigratable")
NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
NIC = GuestNic("default", "02:00:00:00:00:07", ("10.99.0.5",), "eth0")
RUNNING = pb.DomainStatus(
    state=pb.DOMAIN_STATE_RUNNING, machine_type="pc-q35-7.2", disks=[pb.DiskTarget(name="root", target="vda")]
)


def vmi(**status: object) -> VirtualMachineInstance:
    spec = {"domain": {"memory": {"guest": "128Mi"}}, "volumes": [{"name": "root"}]}
    found = {"phase": "Scheduled", "nodeName": "edge-1", **status}
    return vmi_with(spec, found, uid="u1", resourceVersion="7")


def patched(before: VirtualMachineInstance, patch: JsonObject | None) -> VirtualMachineInstance:
    assert patch is not None
    from kvedge.resources.codec import encode

    document = encode(before)
    for key, value in patch["status"].items():
        document["status"].pop(key, None)
        if value is not None:
            document["status"][key] = value
    return decode(VirtualMachineInstance, document)


def test_the_launchers_version_comes_along_with_what_is_written_anyway() -> None:
    seen = Observation("Running", status=RUNNING, nics=(NIC,), launcher_version="0.1.0")
    patch = status_patch(vmi(), seen, NOW)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7", "annotations": {"kvedge.io/launcher-version": "0.1.0"}}
    known = patched(vmi(), patch)
    assert status_patch(known, seen, NOW) is None


def test_a_guest_that_has_come_to_another_versions_launcher_has_that_told_at_once() -> None:
    seen = Observation("Running", status=RUNNING, nics=(NIC,), launcher_version="0.1.0")
    known = patched(vmi(), status_patch(vmi(), seen, NOW))
    assert status_patch(known, seen, NOW) is None
    known.metadata.annotations["kvedge.io/launcher-version"] = "0.0.9"
    assert status_patch(known, seen, NOW) == {
        "metadata": {"resourceVersion": "7", "annotations": {"kvedge.io/launcher-version": "0.1.0"}}
    }


def test_a_start_is_one_patch_bound_to_the_version_that_was_read() -> None:
    patch = status_patch(vmi(), Observation("Running", status=RUNNING, nics=(NIC,)), NOW)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "7"}
    after = patched(vmi(), patch).status
    assert after.phase == "Running"
    assert after.phase_transition_timestamps[-1].phase == "Running"
    assert after.phase_transition_timestamps[-1].phase_transition_timestamp == "2026-05-01T12:00:00Z"
    assert (after.interfaces[0].name, after.interfaces[0].ip_address, after.interfaces[0].mac) == (
        "default",
        "10.99.0.5",
        "02:00:00:00:00:07",
    )
    assert [(item.name, item.target) for item in after.volume_status] == [("root", "vda")]
    assert after.machine is not None
    assert after.machine.type == "pc-q35-7.2"


def test_the_size_of_an_iso_that_the_launcher_made_is_told_and_that_of_a_users_is_not() -> None:
    before = vmi()
    before.spec.volumes.append(decode(Volume, {"name": "seed", "cloudInitNoCloud": {"userData": "x"}}))
    disks = [pb.DiskTarget(name=name, target=name, image_bytes=376832) for name in ("root", "seed")]
    seen = Observation("Running", status=pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, disks=disks))
    after = patched(before, status_patch(before, seen, NOW)).status
    assert [(item.name, item.size) for item in after.volume_status] == [("root", 0), ("seed", 376832)]


def test_what_has_not_changed_is_not_written_again() -> None:
    seen = Observation("Running", status=RUNNING, nics=(NIC,))
    first = patched(vmi(), status_patch(vmi(), seen, NOW))
    assert status_patch(first, seen, NOW) is None


def test_a_phase_that_may_not_follow_is_a_defect_and_never_written() -> None:
    with pytest.raises(PhaseError):
        status_patch(vmi(phase="Succeeded"), Observation("Running", status=RUNNING), NOW)


def test_conditions_of_others_pass_through_and_ours_come_and_go() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    paused = pb.DomainStatus(state=pb.DOMAIN_STATE_PAUSED, reason=pb.DOMAIN_REASON_USER)
    before = vmi(phase="Running", conditions=[ready])
    after = patched(before, status_patch(before, Observation("Running", status=paused), NOW))
    assert [item.type for item in after.status.conditions] == ["Ready", "Paused", *MOBILITY]
    assert after.status.conditions[0].last_transition_time == "2026-01-01T00:00:00Z"
    assert after.status.conditions[1].reason == "PausedByUser"
    again = patched(after, status_patch(after, Observation("Running", status=RUNNING), NOW))
    assert [item.type for item in again.status.conditions] == ["Ready", *MOBILITY]


def test_a_disk_error_pauses_with_its_own_reason() -> None:
    paused = pb.DomainStatus(state=pb.DOMAIN_STATE_PAUSED, reason=pb.DOMAIN_REASON_IO_ERROR)
    paused.disk_errors.add(name="data", no_space=True)
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=paused), NOW))
    assert after.status.conditions[0].reason == "PausedIOError"
    assert after.status.conditions[0].message.startswith(
        "VMI was paused, low-level IO error detected (volume data: its place is full"
    )


def test_a_failure_is_told_with_its_words_and_taken_back_when_it_is_over() -> None:
    failure = SyncFailure("Synchronizing with the Domain failed.", "no space left in /var/lib/kvedge")
    before = vmi()
    after = patched(before, status_patch(before, Observation("Scheduled", failure=failure), NOW))
    assert (after.status.conditions[0].type, after.status.conditions[0].status) == ("Synchronized", "False")
    assert "no space left" in after.status.conditions[0].message
    cured = patched(after, status_patch(after, Observation("Scheduled"), NOW))
    assert cured.status.conditions == []


def test_what_the_guest_agent_says_replaces_the_lease_and_says_who_said_it() -> None:
    agent = pb.GuestAddress(
        mac=NIC.mac.upper(), guest_name="ens3", addresses=["192.168.7.7", "fe80::1"], source="guest-agent"
    )
    inner = pb.GuestAddress(mac="52:54:00:00:00:01", guest_name="br0", addresses=["172.16.0.1"], source="guest-agent")
    status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, addresses=[agent, inner], agent_connected=True)
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status, nics=(NIC,)), NOW)).status
    assert after.interfaces[0].ip_addresses == ["192.168.7.7", "fe80::1"]
    assert after.interfaces[0].info_source == "domain, guest-agent"
    assert (after.interfaces[1].name, after.interfaces[1].interface_name) == ("", "br0")


def test_a_hostile_agent_cannot_make_the_status_large() -> None:
    flood = [
        pb.GuestAddress(mac=NIC.mac, guest_name="x" * 10_000, addresses=["y" * 1000] * 100, source="guest-agent")
        for _ in range(100)
    ]
    status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, addresses=flood)
    patch = status_patch(vmi(phase="Running"), Observation("Running", status=status, nics=(NIC,)), NOW)
    assert len(str(patch)) < 50_000


def test_what_the_agent_says_of_the_system_and_of_freezing_is_shown() -> None:
    guest = pb.GuestInfo(os_id="debian", os_pretty_name="Debian 12", kernel_release="6.1", hostname="web")
    status = pb.DomainStatus(
        state=pb.DOMAIN_STATE_RUNNING, agent_connected=True, guest=guest, fs_freeze_status="frozen"
    )
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status), NOW))
    assert after.status.guest_os_info is not None
    assert (after.status.guest_os_info.id, after.status.guest_os_info.pretty_name) == ("debian", "Debian 12")
    assert after.status.fs_freeze_status == "frozen"
    told = [(item.type, item.status) for item in after.status.conditions]
    assert told == [("AgentConnected", "True"), ("LiveMigratable", "False"), ("StorageLiveMigratable", "False")]
    status.fs_freeze_status = "thawed"
    thawed = patched(after, status_patch(after, Observation("Running", status=status), NOW))
    assert thawed.status.fs_freeze_status == "", "KubeVirt does not say that a guest is thawed"


def test_an_agent_that_goes_takes_its_conditions_along_and_leaves_what_it_said() -> None:
    status = pb.DomainStatus(
        state=pb.DOMAIN_STATE_RUNNING,
        agent_connected=True,
        guest=pb.GuestInfo(os_id="debian"),
        fs_freeze_status="frozen",
        agent_lacks=["guest-ping"],
    )
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status), NOW))
    lacks = {item.type: item for item in after.status.conditions}["AgentVersionNotSupported"]
    assert (lacks.status, lacks.reason) == ("True", "This guest agent doesn't support required basic commands")
    assert lacks.message == "it lacks guest-ping"
    gone = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING)
    left = patched(after, status_patch(after, Observation("Running", status=gone), NOW))
    assert [item.type for item in left.status.conditions] == [*MOBILITY]
    assert left.status.fs_freeze_status == ""
    assert left.status.guest_os_info == after.status.guest_os_info


def test_a_dual_stack_guest_shows_both_addresses_of_its_pod() -> None:
    nic = GuestNic("default", "02:00:00:00:00:07", ("10.99.0.5", "fd00::5"), "eth0")
    before = vmi()
    after = patched(before, status_patch(before, Observation("Running", status=RUNNING, nics=(nic,)), NOW)).status
    assert (after.interfaces[0].ip_address, after.interfaces[0].ip_addresses) == ("10.99.0.5", ["10.99.0.5", "fd00::5"])


def test_a_guest_behind_its_pods_address_shows_that_whatever_its_agent_says() -> None:
    nic = GuestNic("default", "02:00:00:00:00:07", ("10.99.0.5", "fd00::5"), "eth0", is_translated=True)
    own = pb.GuestAddress(mac=nic.mac, guest_name="ens3", addresses=["10.0.2.2", "fe80::1"], source="guest-agent")
    leased = pb.GuestAddress(interface="default", mac=nic.mac, addresses=["10.0.2.2"], source="lease")
    seen = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, addresses=[leased, own])
    before = vmi()
    after = patched(before, status_patch(before, Observation("Running", status=seen, nics=(nic,)), NOW)).status
    shown = after.interfaces[0]
    assert (shown.ip_address, shown.ip_addresses) == ("10.99.0.5", ["10.99.0.5", "fd00::5"])
    assert (shown.interface_name, shown.info_source) == ("ens3", "domain, guest-agent")


def test_a_network_that_the_pod_has_joined_says_so_beside_who_else_knows_it() -> None:
    before = vmi(interfaces=[{"name": "lan", "podInterfaceName": "pod1", "infoSource": "multus-status"}])
    lan = GuestNic("lan", "02:00:00:00:00:08", (), "pod1", 2, "down")
    after = patched(before, status_patch(before, Observation("Running", status=RUNNING, nics=(NIC, lan)), NOW))
    first, second = after.status.interfaces
    assert (first.name, first.info_source, first.link_state) == ("default", "domain", "up")
    assert (second.info_source, second.link_state, second.queue_count) == ("domain, multus-status", "down", 2)
    assert (second.ip_address, second.pod_interface_name) == ("", "pod1")
    agent = pb.GuestAddress(mac=lan.mac, addresses=["192.0.2.9"], source="guest-agent", guest_name="eth1")
    told = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, addresses=[agent])
    known = patched(after, status_patch(after, Observation("Running", status=told, nics=(NIC, lan)), NOW))
    assert known.status.interfaces[1].info_source == "domain, guest-agent, multus-status"
    assert known.status.interfaces[1].ip_address == "192.0.2.9"


LAN = GuestNic("lan", "02:00:00:00:00:08", (), "pod1")


def nics(*names: str, **more: object) -> pb.DomainStatus:
    """A guest whose launcher tells of its NICs."""
    found = [pb.DomainNic(name=name, queues=4, down=name == more.get("down")) for name in names]
    return pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, nics=found, follows_nics=True)


def shown(
    rows: list[JsonObject], status: pb.DomainStatus, prepared: tuple[GuestNic, ...] | None, leaving: str = ""
) -> list[tuple[str, str, str, int]]:
    """Name, source, link and queues of each interface after a pass that began with these rows."""
    before = vmi(phase="Running", interfaces=rows)
    gone = frozenset(leaving.split())
    patch = status_patch(before, Observation("Running", status=status, nics=prepared, leaving=gone), NOW)
    after = before if patch is None else patched(before, patch)
    return [(row.name, row.info_source, row.link_state, row.queue_count) for row in after.status.interfaces]


def test_a_nic_on_its_way_is_the_pods_until_the_domain_has_it() -> None:
    joined: list[JsonObject] = [{"name": "lan", "podInterfaceName": "pod1", "infoSource": "multus-status"}]
    first = ("default", "domain", "up", 4)
    assert shown(joined, nics("default"), (NIC,)) == [first, ("lan", "multus-status", "", 0)]
    assert shown(joined, nics("default"), (NIC, LAN)) == [first, ("lan", "multus-status", "", 0)]
    assert shown(joined, nics("default", "lan"), (NIC, LAN)) == [first, ("lan", "domain, multus-status", "up", 4)]
    assert shown(joined, nics("default", "lan", down="lan"), (NIC, LAN))[1] == (
        "lan",
        "domain, multus-status",
        "down",
        4,
    )


def test_a_nic_that_goes_is_shown_until_nothing_of_it_is_left() -> None:
    row: JsonObject = {"name": "lan", "podInterfaceName": "pod1", "mac": LAN.mac, "infoSource": "domain, multus-status"}
    first = ("default", "domain", "up", 4)
    assert shown([row], nics("default", "lan"), (NIC,), "lan")[1][1] == "domain, multus-status"
    assert shown([row], nics("default"), (NIC,)) == [first, ("lan", "multus-status", "", 0)]
    assert shown([row | {"infoSource": "domain"}], nics("default"), (NIC,)) == [first]


def test_rows_stay_until_this_handler_has_prepared_the_nics() -> None:
    row: JsonObject = {"name": "lan", "podInterfaceName": "pod1", "infoSource": "domain, multus-status"}
    assert shown([row], nics("default", "lan"), None) == [("lan", "domain, multus-status", "", 0)]


def test_what_keeps_a_nic_back_is_the_vmis_condition() -> None:
    status = nics("default")
    status.nic_troubles.append(pb.NicTrouble(name="lan", action=pb.NIC_ACTION_ATTACH, message="no slot"))
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status, nics=(NIC,)), NOW))
    (found,) = [item for item in after.status.conditions if item.type == "Synchronized"]
    assert (found.reason, found.message) == (
        "HotplugInterfacesNotSynchronized",
        "interface lan cannot be plugged in: no slot",
    )


def test_a_nic_that_nobody_serves_any_more_is_the_vmis_condition_and_down() -> None:
    status = nics("default")
    trouble = pb.NicTrouble(name="default", action=pb.NIC_ACTION_SERVE, message="passt has ended")
    status.nic_troubles.append(trouble)
    status.nics[0].down = True
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status, nics=(NIC,)), NOW))
    (found,) = [item for item in after.status.conditions if item.type == "Synchronized"]
    told = "interface default has no network: passt has ended; restart the VM"
    assert (found.status, found.reason, found.message) == ("False", "NetworkCutOff", told)
    assert [row.link_state for row in after.status.interfaces] == ["down"]


def test_how_a_guest_can_move_is_told_while_it_runs_and_stays_while_nobody_knows() -> None:
    before = vmi(phase="Running")
    starting = pb.DomainStatus(state=pb.DOMAIN_STATE_STARTING, migrates=True)
    patch = status_patch(before, Observation("Running", status=starting), NOW)
    assert patch is not None
    assert set(patch["status"]) == {"memory"}
    runs = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, migrates=True)
    after = patched(before, status_patch(before, Observation("Running", status=runs), NOW))
    assert [(item.type, item.status) for item in after.status.conditions] == [(kind, "True") for kind in MOBILITY]
    assert after.status.migration_method == "BlockMigration"
    left = pb.DomainStatus(state=pb.DOMAIN_STATE_SHUTOFF, reason=pb.DOMAIN_REASON_MIGRATED)
    for status in (None, left):
        assert status_patch(after, Observation("Running", status=status), NOW) is None


def test_a_guest_that_a_user_had_paused_stays_paused_while_it_moves() -> None:
    moving = pb.OutgoingMigration(migration_uid="m", state=pb.OUTGOING_ACTIVE, paused=True)
    status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, outgoing=moving)
    before = vmi(phase="Running")
    after = patched(before, status_patch(before, Observation("Running", status=status), NOW))
    assert {item.type: item.reason for item in after.status.conditions}["Paused"] == "PausedByUser"


def test_a_guest_that_has_come_and_cannot_run_yet_is_not_called_paused() -> None:
    come = pb.IncomingMigration(migration_uid="m", state=pb.INCOMING_OWNED)
    before = vmi(phase="Running")
    for reason, paused in ((pb.DOMAIN_REASON_UNSPECIFIED, False), (pb.DOMAIN_REASON_USER, True)):
        status = pb.DomainStatus(state=pb.DOMAIN_STATE_PAUSED, reason=reason, incoming=come)
        after = patched(before, status_patch(before, Observation("Running", status=status), NOW))
        assert any(item.type == "Paused" for item in after.status.conditions) is paused


def test_the_vmi_says_whether_the_guest_has_its_keys_and_passwords() -> None:
    status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING)
    status.access_credentials.message = "Guest agent is offline"
    before = vmi(phase="Running")
    waits = patched(before, status_patch(before, Observation("Running", status=status), NOW))
    found = {item.type: item for item in waits.status.conditions}["AccessCredentialsSynchronized"]
    assert (found.status, found.message) == ("False", "Guest agent is offline")
    status.access_credentials.CopyFrom(pb.AccessCredentials(synchronized=True))
    done = patched(waits, status_patch(waits, Observation("Running", status=status), NOW))
    found = {item.type: item for item in done.status.conditions}["AccessCredentialsSynchronized"]
    assert (found.status, found.message or "") == ("True", "")

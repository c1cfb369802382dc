# Tests: kvedge/handler/launchers/guest_answer_message.py, kvedge/handler/launchers/launcher_door.py
# Tests: kvedge/handler/launchers/relay_core.py
"""What a launcher tells, in KubeVirt's shape; and what a freeze has to say."""

from __future__ import annotations

import pytest

from kvedge.handler.launchers.guest_answer_message import guest_answer
from kvedge.handler.launchers.launcher_door import freeze_request
from kvedge.handler.launchers.relay_core import DoorError
from kvedge.rpc import launcher_pb2 as pb


def test_all_that_is_known_of_a_guest() -> None:
    info = pb.GuestInfo(
        hostname="web",
        os_id="debian",
        timezone="CET, 3600",
        agent_version="7.2",
        commands=[pb.AgentCommand(name="guest-ping", enabled=True)],
        users=[pb.GuestUser(name="root", login_unix_seconds=1.5)],
        filesystems=[pb.GuestFilesystem(disk_name="vda1", mount_point="/", type="ext4", used_bytes=1, total_bytes=2)],
        fs_freeze_status="thawed",
    )
    mount = {"diskName": "vda1", "mountPoint": "/", "fileSystemType": "ext4"}
    assert guest_answer(info) == {
        "guestAgentVersion": "7.2",
        "supportedCommands": [{"name": "guest-ping", "enabled": True}],
        "hostname": "web",
        "os": {"id": "debian"},
        "timezone": "CET, 3600",
        "userList": [{"userName": "root", "domain": "", "loginTime": 1.5}],
        "fsInfo": {"disks": [{**mount, "usedBytes": 1, "totalBytes": 2, "disk": []}]},
        "fsFreezeStatus": "thawed",
    }


def test_lists_are_items() -> None:
    users = pb.GuestUsers(users=[pb.GuestUser(name="ann", domain="CORP")])
    assert guest_answer(users) == {"items": [{"userName": "ann", "domain": "CORP", "loginTime": 0.0}]}
    disk = pb.GuestDisk(serial="s1", bus_type="virtio")
    mounts = pb.GuestFilesystems(filesystems=[pb.GuestFilesystem(disks=[disk])])
    assert guest_answer(mounts)["items"][0]["disk"] == [{"serial": "s1", "busType": "virtio"}]


def test_a_launcher_tells_how_far_a_guest_is_that_moves_away() -> None:
    outgoing = pb.OutgoingMigration(
        migration_uid="m", state=pb.OUTGOING_ACTIVE, total_bytes=9, sent_bytes=5, left_bytes=4, memory_rate_bytes=2
    )
    counts = {"totalBytes": 9, "sentBytes": 5, "leftBytes": 4, "memoryRateBytes": 2, "downtimeMs": 0}
    assert guest_answer(pb.DomainStatus(outgoing=outgoing)) == {"migrationUid": "m", "state": "Active", **counts}
    assert guest_answer(pb.DomainStatus())["state"] == "None"


def test_a_freeze_says_for_how_long() -> None:
    assert freeze_request({"unfreezeSeconds": 300}).unfreeze_seconds == 300
    assert freeze_request({"unfreezeSeconds": 0}).unfreeze_seconds == 0


@pytest.mark.parametrize("seconds", [None, True, "300", 1.5, -1, 1 << 32])
def test_a_freeze_without_sense_is_refused(seconds: object) -> None:
    with pytest.raises(DoorError) as refused:
        freeze_request({"unfreezeSeconds": seconds})
    assert refused.value.status == 400

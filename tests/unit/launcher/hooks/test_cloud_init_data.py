"""cloud-init's files become KubeVirt's CloudInitData, and an answer becomes files again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.launcher.hooks.cloud_init_data import data_of, files_of, no_cloud_of

NO_CLOUD = {"meta-data": b'{"instance-id": "i"}', "user-data": b"#cloud-config", "network-config": b"version: 2"}
DRIVE = {
    "openstack/latest/meta_data.json": b'{"devices": [{"type": "nic"}], "instance_id": "i"}',
    "openstack/latest/user_data": b"#cloud-config",
}


def said(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def test_a_no_cloud_volume_is_told_as_kubevirt_tells_it() -> None:
    assert json.loads(data_of(NO_CLOUD, "init")) == {
        "DataSource": "noCloud",
        "NoCloudMetaData": {"instance-id": "i"},
        "ConfigDriveMetaData": None,
        "UserData": "#cloud-config",
        "NetworkData": "version: 2",
        "DevicesData": None,
        "VolumeName": "init",
    }
    assert json.loads(no_cloud_of(NO_CLOUD)) == {"userData": "#cloud-config", "networkData": "version: 2"}


def test_a_config_drive_tells_its_devices() -> None:
    told = json.loads(data_of(DRIVE, "init"))
    assert (told["DataSource"], told["DevicesData"]) == ("configDrive", [{"type": "nic"}])
    assert told["ConfigDriveMetaData"]["instance_id"] == "i"


@pytest.mark.parametrize("files", [NO_CLOUD, DRIVE], ids=["no cloud", "config drive"])
def test_an_unchanged_answer_changes_nothing(files: dict[str, bytes]) -> None:
    assert files_of(files, data_of(files, "init"), no_cloud_of(files)) == files


def test_a_changed_answer_counts() -> None:
    answer = json.loads(data_of(NO_CLOUD, "init")) | {"UserData": "#!/bin/sh", "NetworkData": ""}
    answer["NoCloudMetaData"] = {"instance-id": "j"}
    made = files_of(NO_CLOUD, said(answer), b"")
    assert made == {"meta-data": b'{"instance-id": "j"}', "user-data": b"#!/bin/sh"}


def test_an_old_hook_answers_user_and_network_data_alone() -> None:
    made = files_of(NO_CLOUD, b"", said({"userData": "new"}))
    assert made == {"meta-data": NO_CLOUD["meta-data"], "user-data": b"new"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "no JSON"),
        (b"[]", "no object"),
        (said({"UserData": 1, "NoCloudMetaData": {}}), "no text"),
        (said({"UserData": "x" * ((1 << 20) + 1), "NoCloudMetaData": {}}), "more than 1 MiB"),
    ],
    ids=["half", "a list", "a number", "too long"],
)
def test_an_answer_that_cannot_be_read_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        files_of(NO_CLOUD, data, b"")


def test_compressed_data_is_not_shown_to_hooks() -> None:
    with pytest.raises(ValueError, match="no UTF-8"):
        data_of({**NO_CLOUD, "user-data": b"\x1f\x8b"}, "init")

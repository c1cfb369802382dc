"""Where the claims of a Pod are, and why a Pod waits for one."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.core import PersistentVolumeClaimVolume, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.standalone.agent.pod.place import claim_volumes
from kvedge.standalone.agent.pod.place.claim_volumes import ClaimError, claim_path, link_device


@dataclass
class Api:
    """What the API says."""

    path: Path
    claim_fields: dict[str, Any] = field(default_factory=dict)
    volume_fields: dict[str, Any] = field(default_factory=dict)
    has_claim: bool = True
    has_volume: bool = True

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        meta = {"name": name, "namespace": namespace, "uid": "u"}
        document = {"metadata": meta, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}, **self.claim_fields}
        return decode(PersistentVolumeClaim, document) if self.has_claim else None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        spec = {"claimRef": {"uid": "u"}, "local": {"path": str(self.path)}, **self.volume_fields}
        return decode(PersistentVolume, {"metadata": {"name": name}, "spec": spec}) if self.has_volume else None


def path_of(api: Api) -> str:
    pod = decode(Pod, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": []}})
    return claim_path(pod, PersistentVolumeClaimVolume(claim_name="data"), api)


def test_a_bound_claim_is_where_its_volume_is(tmp_path: Path) -> None:
    assert path_of(Api(tmp_path)) == str(tmp_path)
    assert path_of(Api(tmp_path, volume_fields={"local": None, "hostPath": {"path": str(tmp_path)}})) == str(tmp_path)


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        pytest.param({"has_claim": False}, 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param({"claim_fields": {"status": {"phase": "Pending"}}}, "is not bound", id="a pending claim"),
        pytest.param({"claim_fields": {"status": {"phase": "Lost"}}}, "phase Lost", id="a lost claim"),
        pytest.param({"has_volume": False}, 'persistentvolume "pv" of claim "data" not found', id="no volume"),
        pytest.param(
            {"volume_fields": {"claimRef": {"uid": "other"}}}, "is not bound to claim", id="another claim's volume"
        ),
        pytest.param({"volume_fields": {"local": None}}, "no volume plugin", id="a foreign volume"),
        pytest.param({"volume_fields": {"local": {"path": "/nowhere/x"}}}, "is not there", id="a missing disk"),
        pytest.param({"volume_fields": {"local": {"path": "/tmp/../etc"}}}, "without ..", id="a path with dots"),
        pytest.param({"volume_fields": {"volumeMode": "Block"}}, "is not a block device", id="no device"),
        pytest.param({"volume_fields": {"local": {"path": "/dev/null"}}}, "is not a directory", id="no directory"),
        pytest.param(
            {"volume_fields": {"local": None, "hostPath": {"path": "/dev/null", "type": "DirectoryOrCreate"}}},
            "persistentvolume pv: hostPath type check failed: /dev/null is not a directory",
            id="another type",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_says_why(facts: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ClaimError, match=text):
        path_of(Api(tmp_path, **facts))


def test_a_device_that_is_another_volumes_by_now_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = Api(tmp_path / "pv", volume_fields={"volumeMode": "Block"})
    (tmp_path / "pv").symlink_to("/dev/null")
    monkeypatch.setattr(claim_volumes, "DEVICES", tmp_path)
    monkeypatch.setattr(claim_volumes.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(claim_volumes, "leads_to_own", lambda link: False)
    with pytest.raises(ClaimError, match="leads to another device"):
        path_of(device)
    monkeypatch.setattr(claim_volumes, "leads_to_own", lambda link: True)
    assert path_of(device) == str(tmp_path / "pv")


def test_a_host_path_is_made_where_its_volume_asks_for_it(tmp_path: Path) -> None:
    made = {"local": None, "hostPath": {"path": str(tmp_path / "images/web"), "type": "DirectoryOrCreate"}}
    assert path_of(Api(tmp_path, volume_fields=made)) == str(tmp_path / "images/web")
    assert (tmp_path / "images/web").is_dir()

    absent = {"local": None, "hostPath": {"path": str(tmp_path / "other"), "type": "Directory"}}
    with pytest.raises(ClaimError, match="is not there"):
        path_of(Api(tmp_path, volume_fields=absent))


def test_a_link_leads_to_the_device_that_it_was_last_made_for(tmp_path: Path) -> None:
    link = tmp_path / "volumeDevices" / "kubernetes.io~local-volume" / "data"
    for device in ("/dev/loop1", "/dev/loop2", "/dev/loop2"):
        link_device(link, device)
        assert os.readlink(link) == device
    assert os.listdir(link.parent) == ["data"]

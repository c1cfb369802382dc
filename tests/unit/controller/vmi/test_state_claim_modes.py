# Tests: kvedge/controller/vmi/state_claim_modes.py
"""The claim for a VM's own state is shared where its class is known for that, so that the VM can move."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.controller.vmi.state_claim_modes import with_modes
from kvedge.kube.errors import NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.data_volume_names import DEFAULT_CLASS
from kvedge.resources.disks.state_claims import make_state_claim
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.data_volumes import ClaimPropertySet, StorageProfile, StorageProfileStatus
from kvedge.resources.types.storage import StorageClass
from tests.support.builders import vmi_with

ONE, MANY = ["ReadWriteOnce"], ["ReadWriteMany"]


class Classes:
    """A server with one storage class, the default one, and perhaps its profile."""

    def __init__(self, provisioner: str, profile: list[tuple[str, str]]) -> None:
        meta = ObjectMeta(name="fast", annotations={DEFAULT_CLASS: "true"})
        self._class = StorageClass(metadata=meta, provisioner=provisioner)
        sets = [ClaimPropertySet(access_modes=[mode], volume_mode=volume) for mode, volume in profile]
        status = StorageProfileStatus(claim_property_sets=sets)
        self._profile = StorageProfile(metadata=ObjectMeta(name="fast"), status=status) if profile else None

    def get(self, cls: type, _namespace: str, name: str) -> Any:
        found = self._class if cls is StorageClass else self._profile
        if found is None or name != "fast":
            raise NotFound(404, "NotFound", "no such object")
        return found

    def list(self, _cls: type) -> list[StorageClass]:
        return [self._class]


@pytest.mark.parametrize(
    ("provisioner", "profile", "named", "modes"),
    [
        pytest.param("nfs.csi.k8s.io", [], "fast", MANY, id="files of a server"),
        pytest.param("nfs.csi.k8s.io", [], "", MANY, id="the default class"),
        pytest.param("rancher.io/local-path", [], "fast", ONE, id="one node's directories"),
        pytest.param("kvedge.io/box", [], "", ONE, id="one box"),
        pytest.param("rbd.csi.ceph.com", [], "fast", ONE, id="only devices are shared"),
        pytest.param("example.org/new", [], "fast", MANY, id="unknown and named for it"),
        pytest.param("example.org/new", [], "", ONE, id="unknown"),
        pytest.param("example.org/new", [("ReadWriteOnce", "Filesystem")], "fast", ONE, id="a profile says no"),
        pytest.param("rancher.io/local-path", [("ReadWriteMany", "Filesystem")], "", MANY, id="a profile says yes"),
        pytest.param("example.org/new", [], "gone", MANY, id="a class that is not there"),
    ],
)
def test_its_access_mode(provisioner: str, profile: list[tuple[str, str]], named: str, modes: list[str]) -> None:
    claim = make_state_claim(vmi_with({}, name="web", uid="u"), named)
    made = with_modes(claim, cast(KubeClient, Classes(provisioner, profile)))
    assert made.spec.access_modes == modes
    assert made.metadata == claim.metadata

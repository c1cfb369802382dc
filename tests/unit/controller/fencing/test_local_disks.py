"""Which volumes are on one node alone."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from kvedge.controller.fencing.local_disks import find_local_claim, is_of_one_node
from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.storage import (
    HostPathSource,
    LocalVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)


def among(key: str, *values: str) -> JsonObject:
    return {
        "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]}
    }


@pytest.mark.parametrize(
    ("spec", "is_local"),
    [
        pytest.param(PersistentVolumeSpec(local=LocalVolume(path="/disks/a")), True, id="a local volume"),
        pytest.param(
            PersistentVolumeSpec(
                host_path=HostPathSource(path="/x"), node_affinity=among("kubernetes.io/hostname", "n1")
            ),
            True,
            id="of local-path",
        ),
        pytest.param(
            PersistentVolumeSpec(csi={}, node_affinity=among("topology.topolvm.io/node", "n1")), True, id="of TopoLVM"
        ),
        pytest.param(
            PersistentVolumeSpec(csi={}, node_affinity=among("kubernetes.io/hostname", "n1", "n2")), False, id="of two"
        ),
        pytest.param(
            PersistentVolumeSpec(csi={}, node_affinity=among("topology.kubernetes.io/zone", "a")), False, id="of a zone"
        ),
        pytest.param(PersistentVolumeSpec(csi={}), False, id="everywhere"),
    ],
)
def test_a_volume_of_one_node_is_known_by_its_affinity(spec: PersistentVolumeSpec, is_local: bool) -> None:
    assert is_of_one_node(PersistentVolume(spec=spec)) is is_local


def test_the_first_claim_on_one_node_is_named() -> None:
    volumes = {
        "far": PersistentVolume(spec=PersistentVolumeSpec(csi={})),
        "near": PersistentVolume(spec=PersistentVolumeSpec(local=LocalVolume(path="/x"))),
    }
    client = MagicMock()

    def get(cls: type, namespace: str, name: str) -> PersistentVolume:
        if name not in volumes:
            raise NotFound(404, "NotFound", name)
        return volumes[name]

    client.get.side_effect = get
    claims = [
        PersistentVolumeClaim(metadata=ObjectMeta(name=f"of-{name}"), spec=PersistentVolumeClaimSpec(volume_name=name))
        for name in ("", "lost", "far", "near")
    ]
    assert find_local_claim(client, claims) == "of-near"
    assert find_local_claim(client, claims[:3]) == ""

"""The lines of `kvedge volume list`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kvedge.client.volumes.volume_rows import size_text, users_of, volume_rows
from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import vmi_with, with_volumes

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def claim(name: str = "root", wanted: str = "10Gi", there: str = "10Gi", **spec: Any) -> PersistentVolumeClaim:
    return decode(
        PersistentVolumeClaim,
        {
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": "2026-01-02T11:58:30Z"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "kvedge",
                "resources": {"requests": {"storage": wanted}},
                **spec,
            },
            "status": {"phase": "Bound", "capacity": {"storage": there} if there else {}},
        },
    )


def test_a_row_says_who_uses_the_claim() -> None:
    volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]
    vm = decode(
        VirtualMachine,
        {
            "metadata": {"name": "web", "namespace": "n"},
            "spec": {"template": {"spec": {"domain": {}, "volumes": volumes}}},
        },
    )
    bare = vmi_with(with_volumes({"name": "r", "dataVolume": {"name": "root"}}), name="bare", namespace="n")
    other = vmi_with(with_volumes({"name": "r", "dataVolume": {"name": "root"}}), name="far", namespace="other")
    kept = {("n", "root"): ["before"]}
    (row,) = volume_rows([claim()], users_of([vm], [bare, other]), NOW, kept)
    cells = ["n", "root", "Bound", "10Gi", "kvedge", "RWO", "bare,web", "before", "1m30s"]
    assert row.cells(with_namespace=True) == cells
    assert (row.document()["usedBy"], row.document()["snapshots"]) == (["bare", "web"], ["before"])


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [("10Gi", "10Gi", "10Gi"), ("20Gi", "10Gi", "10Gi→20Gi"), ("5Gi", "10Gi", "10Gi"), ("5Gi", "", "5Gi")],
    ids=["as asked", "still growing", "more than asked for", "not there yet"],
)
def test_the_size_is_what_there_is_and_what_will_be(wanted: str, there: str, expected: str) -> None:
    assert size_text(claim(wanted=wanted, there=there)) == expected


def test_a_device_nobody_uses() -> None:
    (row,) = volume_rows([claim(volumeMode="Block")], {}, NOW)
    assert row.cells(with_namespace=False)[4:6] == ["RWO,Block", "-"]

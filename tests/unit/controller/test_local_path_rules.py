"""What local-path cannot do, by the claim."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.local_path_rules import binding_problem, limits_of, provisioner_of
from kvedge.resources.types.storage import PersistentVolumeClaim
from tests.support.builders import a_claim


def _claim(provisioner: str = "rancher.io/local-path", **fields: Any) -> PersistentVolumeClaim:
    claim = a_claim(**fields)
    claim.spec.storage_class_name = "local-path"
    claim.metadata.annotations["volume.beta.kubernetes.io/storage-provisioner"] = provisioner
    return claim


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"volume_mode": "Block"}, "cannot provide volumeMode Block;"),
        ({"access_modes": ["ReadWriteMany"]}, "cannot provide ReadWriteMany;"),
        ({}, ""),
    ],
    ids=["block", "shared", "one writer"],
)
def test_what_it_makes_no_volume_for_is_told_with_the_remedy(fields: dict[str, Any], word: str) -> None:
    text = binding_problem(_claim(**fields))
    assert word in text
    assert bool(text) is bool(word)


def test_growth_and_snapshots_are_what_every_claim_of_it_lacks() -> None:
    text = limits_of(_claim())
    assert text.startswith("storage class local-path (local-path) can neither grow PVC web-root nor take a snapshot")
    assert "make a DataVolume of the wanted size with source.pvc" in text


@pytest.mark.parametrize("provisioner", ["driver.longhorn.io", ""])
def test_of_another_provisioner_nothing_is_said(provisioner: str) -> None:
    claim = _claim(provisioner)
    assert (provisioner_of(claim), limits_of(claim)) == (provisioner, "")

"""Whose CDI's kinds are, and that kubectl shows of DataVolumes what it shows with CDI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.manifests.data_volume_kinds import CDI_CRD, DATA_VOLUME_CRDS, MANAGED_BY, cdi_serves

OURS = {crd["metadata"]["name"]: crd for crd in crds() if crd["metadata"]["name"] in DATA_VOLUME_CRDS}
DATA_VOLUMES = "datavolumes.cdi.kubevirt.io"


def by_operator(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"cdi.kubevirt.io": "", MANAGED_BY: "cdi-operator"}}}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        pytest.param({}, False, id="nothing is there yet"),
        pytest.param(OURS, False, id="all of it is kvedge's"),
        pytest.param({CDI_CRD: by_operator(CDI_CRD)}, True, id="CDI's operator has just come"),
        pytest.param({**OURS, CDI_CRD: by_operator(CDI_CRD)}, True, id="CDI's operator came later"),
        pytest.param({**OURS, DATA_VOLUMES: by_operator(DATA_VOLUMES)}, True, id="CDI has taken a kind over"),
        pytest.param({DATA_VOLUMES: {"metadata": {"name": DATA_VOLUMES}}}, True, id="a kind of somebody else's"),
    ],
)
def test_cdi_keeps_what_is_its_own(there: Mapping[str, Any], expected: bool) -> None:
    assert cdi_serves(there.get) is expected


def test_a_data_volume_has_the_columns_and_names_that_it_has_with_cdi() -> None:
    spec = OURS[DATA_VOLUMES]["spec"]
    (version,) = spec["versions"]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "Phase", "Progress", "Restarts", "Age",
    ]  # fmt: skip
    assert (version["name"], version["subresources"]) == ("v1beta1", {"status": {}})
    assert (spec["names"]["shortNames"], spec["names"]["categories"]) == (["dv", "dvs"], ["all"])


def test_only_data_volumes_and_profiles_have_a_status_subresource() -> None:
    with_status = {name for name, crd in OURS.items() if crd["spec"]["versions"][0]["subresources"]}
    assert with_status == {DATA_VOLUMES, "storageprofiles.cdi.kubevirt.io"}


def test_an_overhead_is_a_part_of_one() -> None:
    spec = OURS["cdiconfigs.cdi.kubevirt.io"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    overhead = spec["properties"]["filesystemOverhead"]["properties"]
    assert overhead["global"]["pattern"] == overhead["storageClass"]["additionalProperties"]["pattern"]

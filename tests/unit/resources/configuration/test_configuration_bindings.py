"""Network binding plugins of the KubeVirt object."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.configuration.configuration import BindingPlugin, Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration


def read(**plugins: dict[str, Any]) -> Reading:
    return read_configuration({"configuration": {"network": {"binding": plugins}}})


def test_plugins_are_in_force() -> None:
    overhead = {"requests": {"memory": "100Mi", "cpu": "50m"}, "limits": {"memory": "1Gi"}}
    reading = read(
        managed={"domainAttachmentType": "managedTap", "migration": {"method": "link-refresh"}},
        vtap={
            "domainAttachmentType": "tap",
            "networkAttachmentDefinition": "infra/vtap",
            "computeResourceOverhead": overhead,
        },
        passt={
            "sidecarImage": "passt:1",
            "networkAttachmentDefinition": "passt",
            "downwardAPI": "device-info",
            "migration": {},
        },
    )
    assert reading.findings == ()
    assert reading.configuration.bindings == {
        "managed": BindingPlugin("managedTap", migrates=True, refreshes_link=True),
        "vtap": BindingPlugin("tap", "infra/vtap", overhead["requests"], overhead["limits"]),
        "passt": BindingPlugin("", "passt", sidecar_image="passt:1", tells_devices=True, migrates=True),
    }


@pytest.mark.parametrize(
    ("plugin", "field", "words"),
    [
        ({"sidecarImage": "x:1", "downwardAPI": "all"}, ".downwardAPI", "use device-info"),
        (
            {"domainAttachmentType": "tap", "migration": {"method": "x"}},
            ".migration.method",
            "use link-refresh",
        ),
        ({"domainAttachmentType": "vhost", "sidecarImage": "x:1"}, ".domainAttachmentType", "use tap or managedTap"),
        ({"migration": {}}, ".domainAttachmentType", "name a sidecarImage"),
    ],
    ids=["another downward API", "another method", "another attachment", "neither attachment nor sidecar"],
)
def test_a_plugin_that_cannot_be_used_is_named_and_not_there(plugin: dict[str, Any], field: str, words: str) -> None:
    reading = read(site=plugin, good={"domainAttachmentType": "tap"})
    (found,) = reading.of(Issue.INVALID)
    assert found.path == f"spec.configuration.network.binding[site]{field}"
    assert words in found.message
    assert list(reading.configuration.bindings) == ["good"]


def test_an_amount_that_is_none_is_named_and_left_out() -> None:
    overhead = {"requests": {"memory": "much", "cpu": "1"}}
    reading = read(site={"domainAttachmentType": "tap", "computeResourceOverhead": overhead})
    (found,) = reading.of(Issue.INVALID)
    assert found.path == "spec.configuration.network.binding[site].computeResourceOverhead.requests[memory]"
    assert reading.configuration.bindings["site"].requests == {"cpu": "1"}

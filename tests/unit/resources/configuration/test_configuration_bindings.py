"""Network binding plugins of the KubeVirt object."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.configuration.configuration import BindingPlugin, Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration


def read(**plugins: dict[str, Any]) -> Reading:
    return read_configuration({"configuration": {"network": {"binding": plugins}}})


def test_plugins_without_sidecars_are_in_force() -> None:
    overhead = {"requests": {"memory": "100Mi", "cpu": "50m"}, "limits": {"memory": "1Gi"}}
    reading = read(
        managed={"domainAttachmentType": "managedTap", "migration": {"method": "link-refresh"}},
        vtap={
            "domainAttachmentType": "tap",
            "networkAttachmentDefinition": "infra/vtap",
            "computeResourceOverhead": overhead,
        },
    )
    assert reading.findings == ()
    assert reading.configuration.bindings == {
        "managed": BindingPlugin("managedTap"),
        "vtap": BindingPlugin("tap", "infra/vtap", overhead["requests"], overhead["limits"]),
    }


@pytest.mark.parametrize(
    ("plugin", "field", "words"),
    [
        ({"sidecarImage": "x:1", "domainAttachmentType": "tap"}, ".sidecarImage", "sidecars are not supported"),
        ({"domainAttachmentType": "tap", "downwardAPI": "device-info"}, ".downwardAPI", "remove it"),
        ({"domainAttachmentType": "vhost"}, ".domainAttachmentType", "use tap or managedTap"),
        ({"migration": {}}, ".domainAttachmentType", "use tap or managedTap"),
    ],
    ids=["a sidecar", "the downward API", "another attachment", "no attachment"],
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

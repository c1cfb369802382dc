"""Interfaces of network binding plugins; what else is wrong with networks is in `wrong_networks`."""

from __future__ import annotations

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.configuration.configuration import BindingPlugin, Configuration
from tests.support.builders import put, small_vmi
from tests.support.reviews import request


def causes(name: str) -> list[tuple[str, str]]:
    vmi = small_vmi()
    put(vmi, "spec.domain.devices.interfaces[0]", {"name": "default", "binding": {"name": name}})
    configuration = Configuration(bindings={"site": BindingPlugin("managedTap")})
    return [
        (str(cause.field), cause.message)
        for cause in plan_verdict(request(vmi), Cluster("amd64", configuration)).causes
    ]


def test_a_plugin_that_is_configured_enters() -> None:
    assert causes("site") == []


def test_one_that_nobody_has_configured_is_refused_with_the_place_where_to() -> None:
    ((field, message),) = causes("sites")
    assert field == "spec.domain.devices.interfaces[0].binding.name"
    assert "unable to find the network binding plugin 'sites' in Kubevirt configuration" in message
    assert "spec.configuration.network.binding" in message

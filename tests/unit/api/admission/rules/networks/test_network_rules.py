"""Interfaces of network binding plugins and of what those replace; all else is in `wrong_networks`."""

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


def test_the_binding_that_was_given_up_says_which_plugin_takes_its_place() -> None:
    vmi = small_vmi()
    put(vmi, "spec.domain.devices.interfaces[0]", {"name": "default", "macvtap": {}})
    (cause,) = plan_verdict(request(vmi), Cluster("amd64", Configuration())).causes
    assert str(cause.field) == "spec.domain.devices.interfaces[0].macvtap"
    assert "Macvtap network binding has been discontinued since v1.3: use `binding: {name: macvtap}`" in cause.message


def test_a_plugin_that_makes_a_link_lets_its_nic_go_while_the_guest_runs() -> None:
    vmi = small_vmi()
    put(vmi, "spec.networks", [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}])
    nics = [{"name": "default", "bridge": {}}, {"name": "lan", "binding": {"name": "macvtap"}, "state": "absent"}]
    put(vmi, "spec.domain.devices.interfaces", nics)
    for plugin, refused in (("tap", 0), ("managedTap", 0), ("", 1)):
        configuration = Configuration(bindings={"macvtap": BindingPlugin(plugin)})
        found = plan_verdict(request(vmi), Cluster("amd64", configuration)).causes
        assert len([each for each in found if "supported only for bridge binding" in each.message]) == refused

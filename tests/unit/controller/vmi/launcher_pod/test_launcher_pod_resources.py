"""What network binding plugins and huge pages add to a launcher Pod; the rest is in the golden Pods."""

from __future__ import annotations

from typing import Any

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes, pod_resources
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import parse_quantity
from tests.support.builders import vmi_with
from tests.support.values import replace

CONFIG = ClusterConfig("1", ("kvedge",), (), "/seed", "amd64")


def on_plugins(*names: str) -> VirtualMachineInstance:
    nics = [{"name": f"net{number}", "binding": {"name": name}} for number, name in enumerate(names)]
    return vmi_with({"domain": {"memory": {"guest": "64Mi"}, "devices": {"interfaces": nics}}})


def test_each_plugin_costs_its_pod_once() -> None:
    plugin = BindingPlugin("tap", "", {"cpu": "150m", "memory": "100Mi"}, {"memory": "1Gi"})
    bare = pod_resources(on_plugins("site", "site"), CONFIG)
    found = pod_resources(on_plugins("site", "site", "gone"), replace(CONFIG, bindings={"site": plugin}))
    assert parse_quantity(found.requests["memory"]) == parse_quantity(bare.requests["memory"]) + 100 * 2**20
    assert parse_quantity(found.requests["cpu"]) == parse_quantity(bare.requests["cpu"]) + parse_quantity("150m")
    assert found.limits["memory"] == str(2**30)
    assert "memory" not in bare.limits


def test_a_guest_of_huge_pages_asks_for_them_and_for_its_overhead_beside_them():
    vmi = vmi_with({"domain": {"memory": {"guest": "64Mi", "hugepages": {"pageSize": "2048Ki"}}}})
    found = pod_resources(vmi, CONFIG)
    assert (found.requests["hugepages-2Mi"], found.limits["hugepages-2Mi"]) == (str(64 << 20), str(64 << 20))
    assert found.requests["memory"] == str(overhead_bytes(vmi, CONFIG))


def test_a_request_beyond_the_huge_pages_stays_and_a_smaller_one_takes_no_page_away():
    memory = {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}
    for request, beside in (("100Mi", 36 << 20), ("32Mi", 0)):
        vmi = vmi_with({"domain": {"memory": memory, "resources": {"requests": {"memory": request}}}})
        found = pod_resources(vmi, CONFIG)
        assert found.requests["hugepages-2Mi"] == str(64 << 20)
        assert found.requests["memory"] == str(beside + overhead_bytes(vmi, CONFIG))


def test_a_guest_of_which_huge_pages_alone_are_known_has_one():
    vmi = vmi_with({"domain": {"memory": {"hugepages": {"pageSize": "1Gi"}}}})
    assert pod_resources(vmi, CONFIG).limits["hugepages-1Gi"] == str(1 << 30)


def alone(cpu: dict[str, Any] | None = None, **domain: Any) -> VirtualMachineInstance:
    asked = {"cores": 2, "dedicatedCpuPlacement": True, **(cpu or {})}
    return vmi_with({"domain": {"cpu": asked, "memory": {"guest": "64Mi"}, **domain}})


def test_a_guest_with_cpus_for_itself_has_all_that_its_pod_asks_for():
    vmi = alone({"isolateEmulatorThread": True})
    found = pod_resources(vmi, replace(CONFIG, memory_overcommit_percent=200))
    assert (found.requests["cpu"], found.limits["cpu"]) == ("3", "3")
    assert found.requests["memory"] == found.limits["memory"] == str((64 << 20) + overhead_bytes(vmi, CONFIG))


def test_its_cpus_are_whole_whatever_a_plugin_costs():
    vmi = alone(devices={"interfaces": [{"name": "net", "binding": {"name": "site"}}]})
    plugin = BindingPlugin("tap", "", {"cpu": "150m"}, {"cpu": "1", "memory": "1Gi"})
    found = pod_resources(vmi, replace(CONFIG, bindings={"site": plugin}))
    assert (found.requests["cpu"], found.limits["cpu"]) == ("3", "3")
    assert found.requests["memory"] == found.limits["memory"]


def test_its_overhead_has_some_to_spare():
    shared = vmi_with({"domain": {"cpu": {"cores": 2}, "memory": {"guest": "64Mi"}}})
    assert overhead_bytes(alone(), CONFIG) == overhead_bytes(shared, CONFIG) + (100 << 20)


def test_a_vsock_is_a_device_of_the_node_also_where_guests_are_emulated() -> None:
    wanted = vmi_with({"domain": {"memory": {"guest": "64Mi"}, "devices": {"autoattachVSOCK": True}}})
    for config in (CONFIG, replace(CONFIG, use_emulation=True)):
        assert pod_resources(wanted, config).limits["devices.kubevirt.io/vhost-vsock"] == "1"
    plain = vmi_with({"domain": {"memory": {"guest": "64Mi"}, "devices": {"autoattachVSOCK": False}}})
    assert "devices.kubevirt.io/vhost-vsock" not in pod_resources(plain, CONFIG).limits


def test_a_key_of_intels_is_asked_for_by_its_own_guests_alone() -> None:
    for kind, device in (("tdx", "tdx"), ("sev", "sev"), ("snp", "sev")):
        vmi = vmi_with({"domain": {"memory": {"guest": "64Mi"}, "launchSecurity": {kind: {}}}})
        limits = pod_resources(vmi, CONFIG).limits
        found = {name.rpartition("/")[2] for name in limits} & {"sev", "tdx"}
        assert found == {device}

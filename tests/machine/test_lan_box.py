"""Guests with a second NIC on one box: a network of their own, where nobody but they is, told by what they say."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.pod_networks import NETWORK_STATUS, pod_nic
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import BOOT_SECONDS, Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

IMAGE = "local/guest:1"
BRIDGE = "bkvlan0"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("lanbox") / "data", "10.97.16.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    forbidden = [line for line in found.log.read_text().splitlines() if "is forbidden" in line]
    found.remove()
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
    assert [
        link["ifname"] for link in links if link["ifname"] == BRIDGE or "kvedge lan" in link.get("ifalias", "")
    ] == []
    assert forbidden == []


def attachment(name: str, **config: object) -> JsonObject:
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name},
        "spec": {"config": json.dumps({"cniVersion": "1.0.0", "type": "bridge", "ipam": {}, **config})},
    }


def two_nics(name: str, address: str, peer: str) -> JsonObject:
    """A guest that has this address on its second NIC, and shows what the peer's page says of it."""
    script = (
        "#!/bin/sh\n"
        f"ip link set eth1 up; ip addr add {address}/24 dev eth1\n"
        "mkdir -p /www\n"
        f"(while ! wget -qO /www/peer http://{peer}/facts; do sleep 1; done) >/dev/null 2>&1 &\n"
    )
    vm = small_vm(name, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    devices = spec["domain"]["devices"]
    devices["interfaces"].append({"name": "lan", "bridge": {}})
    devices["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["networks"].append({"name": "lan", "multus": {"networkName": "between"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": script}})
    return vm


def page(vmi: VirtualMachineInstance, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{vmi.status.interfaces[0].ip_address}/{path}", timeout=2) as answer:
            return str(answer.read(65536).decode())
    except OSError:
        return ""


def test_two_guests_talk_over_a_network_of_their_own(box: Box) -> None:
    box.apply(attachment("between", bridge=BRIDGE, kvedge={"makeBridge": True}))
    names = ("lan-one", "lan-two")
    box.apply(two_nics(names[0], "192.0.2.1", "192.0.2.2"))
    box.apply(two_nics(names[1], "192.0.2.2", "192.0.2.1"))
    vmis = [box.wait_phase(name, "Running") for name in names]
    for vmi, other in (vmis, vmis[::-1]):
        said = wait_until(lambda vmi=vmi: page(vmi, "peer"), f"{vmi.metadata.name} hears its peer", BOOT_SECONDS)
        assert other.status.interfaces[0].mac in said.lower()
    for vmi in vmis:
        first, second = vmi.status.interfaces
        assert (first.name, first.pod_interface_name, first.info_source) == ("default", "eth0", "domain")
        assert (second.name, second.pod_interface_name) == ("lan", pod_nic("lan"))
        assert (second.info_source, second.link_state, second.queue_count) == ("domain, multus-status", "up", 1)
        assert second.mac not in ("", first.mac)
        (pod,) = box.pods(vmi)
        joined = json.loads(pod.metadata.annotations[NETWORK_STATUS])
        assert [(each["interface"], each.get("default", False)) for each in joined] == [
            ("eth0", True),
            (pod_nic("lan"), False),
        ]
        assert joined[1]["name"] == "default/between"
        assert joined[1]["mac"] == second.mac
    mac = vmis[0].status.interfaces[1].mac
    box.cli("restart", names[0])
    again = wait_until(lambda: second_run(box, vmis[0]), "the guest runs again", BOOT_SECONDS)
    assert again.status.interfaces[1].mac == mac
    wait_until(lambda: page(again, "peer"), "it is on the network again", BOOT_SECONDS)
    for name in names:
        box.client.delete(VirtualMachine, "default", name)
    wait_until(lambda: all(box.vmi(name) is None for name in names), "the guests are gone", 90)
    wait_until(lambda: not is_link(BRIDGE), "the bridge goes with the last of them")


def second_run(box: Box, first: VirtualMachineInstance) -> VirtualMachineInstance | None:
    found = box.vmi(first.metadata.name)
    is_new = found is not None and found.metadata.uid != first.metadata.uid and found.status.phase == "Running"
    return found if is_new and len(found.status.interfaces) == 2 else None


def is_link(name: str) -> bool:
    return subprocess.run(["ip", "link", "show", name], capture_output=True, check=False).returncode == 0

"""Guests with a second NIC on one box: a network of their own, where nobody but they is, told by what they say."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP
from scapy.utils import rdpcap

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.core import Event
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.pod_networks import NETWORK_STATUS, pod_nic
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.lan_neighbour import Neighbour, dhcp_server, fetch, host_bridge, links_on, neighbour
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
BRIDGE = "bkvlan0"
# Guests on a machine that is shared with others take their time.
SLOW = 240.0
# Whoever comes is asked for: a server of the LAN, or ours.
ASKS = (
    "#!/bin/sh\n"
    "(while :; do for nic in eth1 eth2; do"
    " ip link set $nic up && (ip -4 addr show $nic | grep -q inet || udhcpc -i $nic -n -q -t 2 -T 2);"
    " done; sleep 1; done) >/dev/null 2>&1 &\n"
)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("lanbox"), "10.97.16.0/24", IMAGE) as found:
        yield found
    links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)
    assert BRIDGE not in {link["ifname"] for link in links}


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
    """A page of the guest, asked for on the Pod network."""
    return fetch(f"http://{vmi.status.interfaces[0].ip_address}/{path}")


def test_two_guests_talk_over_a_network_of_their_own(box: Box) -> None:
    assert "network between created" in box.cli("network", "create", "between").stdout
    names = ("lan-one", "lan-two")
    box.apply(two_nics(names[0], "192.0.2.1", "192.0.2.2"))
    box.apply(two_nics(names[1], "192.0.2.2", "192.0.2.1"))
    vmis = [box.wait_phase(name, "Running", SLOW) for name in names]
    for vmi, other in (vmis, vmis[::-1]):
        said = wait_until(lambda vmi=vmi: page(vmi, "peer"), f"{vmi.metadata.name} hears its peer", SLOW)
        assert other.status.interfaces[0].mac in said.lower()
    for vmi in vmis:
        check_status(box, vmi)
    (row,) = json.loads(box.cli("network", "list", "-o", "json").stdout)
    assert (row["name"], row["kind"], row["usedBy"]) == ("between", "isolated", list(names))
    refused = box.cli("network", "delete", "between", check=False)
    assert "network between is kept: lan-one, lan-two is on it." in refused.stderr
    mac = vmis[0].status.interfaces[1].mac
    box.cli("restart", names[0])
    again = wait_until(lambda: second_run(box, vmis[0]), "the guest runs again", SLOW)
    assert again.status.interfaces[1].mac == mac
    wait_until(lambda: page(again, "peer"), "it is on the network again", SLOW)
    for name in names:
        box.remove_vm(name)
    wait_until(lambda: not is_link(row["bridge"]), "the bridge goes with the last of them")
    box.cli("network", "delete", "between")
    assert json.loads(box.cli("network", "list", "-o", "json").stdout) == []


def check_status(box: Box, vmi: VirtualMachineInstance) -> None:
    """What VMI and Pod say of the two NICs."""
    first, second = vmi.status.interfaces
    assert (first.name, first.pod_interface_name, first.info_source) == ("default", "eth0", "domain")
    assert (second.name, second.pod_interface_name) == ("lan", pod_nic("lan"))
    assert (second.info_source, second.link_state, second.queue_count) == ("domain, multus-status", "up", 1)
    assert second.mac not in ("", first.mac)
    (pod,) = box.pods(vmi)
    own, joined = json.loads(pod.metadata.annotations[NETWORK_STATUS])
    assert (own["interface"], own["default"], own["mac"]) == ("eth0", True, first.mac)
    assert joined == {"name": "default/between", "interface": pod_nic("lan"), "mac": second.mac}


def test_a_guest_on_the_hosts_bridge_is_the_hosts_neighbour(box: Box) -> None:
    """At the address that the network gives it, though the LAN has another server. The agent may die meanwhile."""
    addresses = ("--dhcp", "198.51.100.2-198.51.100.9/24", "--gateway", "198.51.100.1", "--filter-addresses")
    box.cli("network", "create", "site", "--bridge", BRIDGE, *addresses)
    with host_bridge(BRIDGE), dhcp_server(BRIDGE, "198.51.100", box.data_dir / "site"):
        vm = two_nics("lan-three", "", "")
        spec = vm["spec"]["template"]["spec"]
        spec["networks"][1]["multus"]["networkName"] = "site"
        spec["volumes"][-1]["cloudInitNoCloud"]["userData"] = ASKS
        box.apply(vm)
        vmi = box.wait_phase("lan-three", "Running", SLOW)
        assert vmi.status.interfaces[1].ip_address == "198.51.100.2"
        wait_until(lambda: "hostname=lan-three" in fetch("http://198.51.100.2/facts"), "the host reaches it", SLOW)
        (port,) = ports_of(BRIDGE)
        # What becomes of the definition is nothing to a guest that runs.
        box.cli("network", "delete", "site", "--force")
        box.end(signal.SIGKILL)
        box.start()
        assert box.wait_phase("lan-three", "Running").metadata.uid == vmi.metadata.uid
        assert ports_of(BRIDGE) == [port]
        wait_until(lambda: "hostname=lan-three" in fetch("http://198.51.100.2/facts"), "the host still reaches it")
        box.client.delete(VirtualMachine, "default", "lan-three")
        wait_until(lambda: box.vmi("lan-three") is None, "the guest is gone", SLOW)
        wait_until(lambda: ports_of(BRIDGE) == [], "its port is gone")
        assert is_link(BRIDGE)


def test_a_vm_on_a_network_that_is_not_there_says_which_and_starts_when_it_is(box: Box) -> None:
    vm = two_nics("lan-four", "192.0.2.4", "192.0.2.4")
    vm["spec"]["template"]["spec"]["networks"][1]["multus"]["networkName"] = "nowhere"
    box.apply(vm)

    def told() -> str:
        messages = [event.message for event in box.client.list(Event, "default")]
        return next((text for text in messages if "there is no network default/nowhere" in text), "")

    remedy = "`kvedge network create nowhere -n default` makes one"
    assert remedy in wait_until(told, "an event names the network", SLOW)

    def why() -> str:
        vmi = box.vmi("lan-four")
        found = condition(vmi.status.conditions, "Synchronized") if vmi is not None else None
        return found.message if found is not None else ""

    assert remedy in wait_until(why, "a condition names it")
    assert why().startswith("spec.networks[1]: ")
    box.cli("network", "create", "nowhere")
    assert len(box.wait_phase("lan-four", "Running", SLOW).status.interfaces) == 2
    assert why() == ""
    box.remove_vm("lan-four")
    box.cli("network", "delete", "nowhere")


HOT = "lan-hot"
HOT_ADDRESS = "198.51.100.9"


def hot_vm() -> JsonObject:
    """A guest that has a NIC on the Pod's network, and gives an address to one that comes."""
    script = (
        "#!/bin/sh\n"
        "(while :; do"
        f" ip link set eth1 up && (ip addr show eth1 | grep -q {HOT_ADDRESS} || ip addr add {HOT_ADDRESS}/24 dev eth1);"
        " cp /sys/class/net/eth1/carrier_changes /www/changes; sleep 1; done) >/dev/null 2>&1 &\n"
    )
    vm = small_vm(HOT, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": script}})
    return vm


def edit(box: Box, *lan: JsonObject, network: str = "hot") -> None:
    """What `kubectl edit vm` comes to: the template's interfaces are the Pod network's and these on that network."""
    interfaces = [{"name": "default", "bridge": {}}, *lan]
    networks = [
        {"name": "default", "pod": {}},
        *({"name": nic["name"], "multus": {"networkName": network}} for nic in lan),
    ]
    spec = {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}
    box.client.patch(VirtualMachine, "default", HOT, MergePatch({"spec": {"template": {"spec": spec}}}))


def row(box: Box, name: str) -> InterfaceStatus | None:
    """What the VMI says of one of its interfaces."""
    vmi = box.vmi(HOT)
    return next((row for row in vmi.status.interfaces if row.name == name), None) if vmi is not None else None


def is_plugged(box: Box) -> bool:
    found = row(box, "lan")
    return found is not None and found.info_source == "domain, multus-status"


def reaches(address: str) -> bool:
    return f"hostname={HOT}" in fetch(f"http://{address}/facts")


def test_a_nic_is_plugged_into_a_running_guest_and_out_again(box: Box) -> None:
    """By edits of the VM alone; the box dies while the guest gets its NIC, and nothing is lost."""
    box.cli("network", "create", "hot", "--bridge", BRIDGE)
    with host_bridge(BRIDGE):
        box.apply(hot_vm())
        vmi = box.wait_phase(HOT, "Running", SLOW)
        own = vmi.status.interfaces[0].ip_address
        wait_until(lambda: reaches(own), "the guest is up", SLOW)
        edit(box, {"name": "lan", "bridge": {}})
        box.end(signal.SIGKILL)
        box.start()
        wait_until(lambda: is_plugged(box), "the NIC is in", SLOW)
        wait_until(lambda: reaches(HOT_ADDRESS), "the host reaches it by the LAN", SLOW)
        found = row(box, "lan")
        assert found is not None
        assert (found.pod_interface_name, found.link_state, found.queue_count) == (pod_nic("lan"), "up", 1)
        vm = box.client.get(VirtualMachine, "default", HOT)
        assert condition(vm.status.conditions, "RestartRequired") is None
        check_way(box)
        check_capture(box, found.mac)
        edit(box, {"name": "lan", "bridge": {}, "state": "down"})
        wait_until(lambda: (row(box, "lan") or found).link_state == "down", "the cable is out", SLOW)
        assert not reaches(HOT_ADDRESS)
        edit(box, {"name": "lan", "bridge": {}, "state": "up"})
        wait_until(lambda: reaches(HOT_ADDRESS), "the cable is in again", SLOW)
        assert reaches(own)
        check_other_network(box, own)
        edit(box, {"name": "lan", "bridge": {}, "state": "absent"})
        wait_until(lambda: row(box, "lan") is None, "the guest has released it", SLOW)
        wait_until(lambda: ports_of(BRIDGE) == [], "its port is gone", SLOW)
        wait_until(lambda: len(interfaces_of(box)) == 1, "the VM has forgotten it", SLOW)
        edit(box, {"name": "lan", "bridge": {}})
        wait_until(lambda: is_plugged(box), "it is in once more", SLOW)
        again = row(box, "lan")
        assert again is not None
        assert again.mac == found.mac
        wait_until(lambda: reaches(HOT_ADDRESS), "the host reaches it once more", SLOW)
        assert box.wait_phase(HOT, "Running").metadata.uid == vmi.metadata.uid
        box.client.delete(VirtualMachine, "default", HOT)
        wait_until(lambda: box.vmi(HOT) is None, "the guest is gone", SLOW)
        wait_until(lambda: ports_of(BRIDGE) == [], "nothing of it is left")
    box.cli("network", "delete", "hot")


def check_other_network(box: Box, own: str) -> None:
    """Another networkName takes the NIC there and back, and the guest sees its cable pulled each time."""
    box.cli("network", "create", "elsewhere")
    changes = count_changes(own)
    edit(box, {"name": "lan", "bridge": {}}, network="elsewhere")
    wait_until(lambda: ports_of(BRIDGE) == [], "its port is on another bridge", SLOW)
    wait_until(lambda: count_changes(own) >= changes + 2, "the guest has seen it", SLOW)
    assert not reaches(HOT_ADDRESS)
    vm = box.client.get(VirtualMachine, "default", HOT)
    assert condition(vm.status.conditions, "RestartRequired") is None
    edit(box, {"name": "lan", "bridge": {}}, network="nowhere")
    wait_until(lambda: why_elsewhere(box), "the VM asks for a restart", SLOW)
    assert "there is no network default/nowhere" in str(
        [event.message for event in box.client.list(Event, "default") if event.reason == "FailedJoinNetwork"]
    )
    edit(box, {"name": "lan", "bridge": {}})
    wait_until(lambda: reaches(HOT_ADDRESS), "the host reaches it again", SLOW)
    wait_until(lambda: not why_elsewhere(box), "nothing is left to do", SLOW)
    box.cli("network", "delete", "elsewhere")


def count_changes(address: str) -> int:
    """How often the guest has seen its second NIC's cable pulled or plugged."""
    return int(fetch(f"http://{address}/changes").strip() or -1)


def why_elsewhere(box: Box) -> str:
    vm = box.client.get(VirtualMachine, "default", HOT)
    found = condition(vm.status.conditions, "RestartRequired")
    return found.message if found is not None else ""


def check_way(box: Box) -> None:
    """What `kvedge network show` says of the two ways of a guest."""
    first, second = json.loads(box.cli("network", "show", HOT, "-o", "json").stdout)["interfaces"]
    for interface, nic, bridge in (
        (first, "eth0-nic", ""),
        (second, pod_nic("lan").replace("pod", "") + "-nic", BRIDGE),
    ):
        tap, own, pods, end, nodes = interface["way"]
        assert [hop["where"] for hop in interface["way"]] == ["pod", "pod", "pod", "node", "node"]
        assert (tap["kind"], own["kind"], pods["name"], end["kind"]) == ("tun", "bridge", nic, "veth")
        assert nodes["name"] == (bridge or nodes["name"])
        assert tap["fromGuest"]["packets"] > 0
        assert pods["toGuest"]["packets"] > 0
    text = box.cli("network", "show", HOT).stdout
    assert f"lan (bridge), node {box.vmi(HOT).status.node_name}" in text  # type: ignore[union-attr]
    assert BRIDGE in text


def check_capture(box: Box, mac: str) -> None:
    """A record of the LAN's interface has what the guest says there."""
    path = box.data_dir / "lan.pcap"
    options = ["--kubeconfig", str(box.kubeconfig), "--interface", "lan", "-o", str(path), "--duration", "5s"]
    with subprocess.Popen(box.command("capture", HOT, *options)) as recording:
        while recording.poll() is None:
            fetch(f"http://{HOT_ADDRESS}/facts")
    assert recording.returncode == 0
    frames = list(rdpcap(str(path)))
    assert mac in {frame.src for frame in frames if IP in frame and frame[IP].src == HOT_ADDRESS}
    assert HOT_ADDRESS in {frame[IP].dst for frame in frames if IP in frame}


PLUGGED = "lan-tap"
NIC = "bkvmt0"
MACVTAP = {"name": "nic", "binding": {"name": "macvtap"}}
MANAGED = {"name": "site", "binding": {"name": "managed"}}


def plug(box: Box, *nics: JsonObject) -> None:
    """A VM with a NIC on the Pod's network and these; of one that is there, its new NICs."""
    vm = small_vm(PLUGGED, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] += nics
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": ASKS}})
    spec["networks"] += [{"name": nic["name"], "multus": {"networkName": nic["name"]}} for nic in nics]
    if box.vmi(PLUGGED) is None:
        box.apply(vm)
    else:
        box.client.patch(VirtualMachine, "default", PLUGGED, MergePatch({"spec": vm["spec"]}))


def plugged_row(box: Box, name: str) -> InterfaceStatus | None:
    vmi = box.vmi(PLUGGED)
    return next((row for row in vmi.status.interfaces if row.name == name), None) if vmi is not None else None


def configure_plugins(box: Box) -> None:
    wait_until(lambda: box.client.list(KubeVirt), "the object is made")
    plugins = {"macvtap": {"domainAttachmentType": "tap"}, "managed": {"domainAttachmentType": "managedTap"}}
    configuration = {"network": {"binding": plugins}}
    patch = MergePatch({"spec": {"configuration": configuration}})
    box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", patch)


def is_heard(lan: Neighbour) -> bool:
    return f"hostname={PLUGGED}" in lan.page("http://203.0.113.50/facts")


def test_guests_on_taps_of_plugins_have_what_the_lan_gives_them(box: Box) -> None:
    """A macvtap on a NIC, and a managed tap on a bridge; the macvtap goes and comes, and the box dies meanwhile."""
    configure_plugins(box)
    files = box.data_dir / "lan"
    with (
        host_bridge(BRIDGE),
        dhcp_server(BRIDGE, "198.51.100", files),
        neighbour(NIC, "203.0.113.1", "203.0.113", files) as lan,
    ):
        assert "network nic created" in box.cli("network", "create", "nic", "--type", "macvtap", "--nic", NIC).stdout
        box.cli("network", "create", "site", "--bridge", BRIDGE)
        plug(box, MACVTAP, MANAGED)
        vmi = box.wait_phase(PLUGGED, "Running", SLOW)
        wait_until(lambda: is_heard(lan), "the LAN reaches the guest at an address of its own", SLOW)
        wait_until(lambda: "lan-tap" in fetch("http://198.51.100.50/facts"), "the site's bridge does so too", SLOW)
        check_plugged(box, lan)
        plug(box, MACVTAP | {"state": "down"}, MANAGED)
        wait_until(lambda: (row := plugged_row(box, "nic")) and row.link_state == "down", "its cable is out", SLOW)
        assert not is_heard(lan)
        plug(box, MACVTAP, MANAGED)
        wait_until(lambda: is_heard(lan), "its cable is in again", SLOW)
        box.end(signal.SIGKILL)
        box.start()
        assert box.wait_phase(PLUGGED, "Running").metadata.uid == vmi.metadata.uid
        assert is_heard(lan)
        plug(box, MACVTAP | {"state": "absent"}, MANAGED)
        wait_until(lambda: plugged_row(box, "nic") is None, "the guest has released its macvtap", SLOW)
        wait_until(lambda: links_on(NIC) == (0, []), "nothing of it is left", SLOW)
        assert taps_of(box, vmi) == []
        plug(box, MACVTAP, MANAGED)
        wait_until(lambda: is_heard(lan), "it is in once more", SLOW)
        assert len(taps_of(box, vmi)) == 1
        box.client.delete(VirtualMachine, "default", PLUGGED)
        wait_until(lambda: box.vmi(PLUGGED) is None, "the guest is gone", SLOW)
        wait_until(lambda: links_on(NIC) == (0, []), "nothing of it is left")
        box.cli("network", "delete", "nic", "site")


def check_plugged(box: Box, lan: Neighbour) -> None:
    """What status and ways say; and that IPv6 passes, of which the first packet is for a group."""
    for name in ("nic", "site"):
        row = plugged_row(box, name)
        assert row is not None
        said = (row.pod_interface_name, row.info_source, row.link_state)
        assert said == (pod_nic(name), "domain, multus-status", "up")
    macvtap = plugged_row(box, "nic")
    assert macvtap is not None
    assert lan.hears(macvtap.mac)
    (shown,) = [
        each
        for each in json.loads(box.cli("network", "show", PLUGGED, "-o", "json").stdout)["interfaces"]
        if each["name"] == "nic"
    ]
    assert shown["binding"] == "macvtap"
    assert [(hop["where"], hop["name"]) for hop in shown["way"]] == [("pod", pod_nic("nic")), ("node", NIC)]
    assert shown["way"][0]["fromGuest"]["packets"] > 0
    assert "this guest and the node itself do not reach each other" in box.cli("network", "show", PLUGGED).stdout


def taps_of(box: Box, vmi: VirtualMachineInstance) -> list[str]:
    """The nodes of macvtaps in the launcher's /dev."""
    dev = Path(f"/proc/{box.launcher_pids(vmi.metadata.uid)[-1]}/root/dev")
    return [path.name for path in dev.iterdir() if path.name.startswith("tap")]


def interfaces_of(box: Box) -> list[str]:
    vm = box.client.get(VirtualMachine, "default", HOT)
    assert vm.spec.template is not None
    return [item.name for item in vm.spec.template.spec.domain.devices.interfaces]


def ports_of(bridge: str) -> list[str]:
    done = subprocess.run(["ip", "-j", "link", "show", "master", bridge], capture_output=True, text=True, check=True)
    return [link["ifname"] for link in json.loads(done.stdout or "[]")]


def second_run(box: Box, first: VirtualMachineInstance) -> VirtualMachineInstance | None:
    found = box.vmi(first.metadata.name)
    is_new = found is not None and found.metadata.uid != first.metadata.uid and found.status.phase == "Running"
    return found if is_new and len(found.status.interfaces) == 2 else None


def is_link(name: str) -> bool:
    return subprocess.run(["ip", "link", "show", name], capture_output=True, check=False).returncode == 0

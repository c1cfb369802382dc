"""What a host forwards because of kvedge, how many connections a guest may keep it busy with, and that others are left
alone."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from kvedge.network.apply_step import apply_step
from kvedge.network.binding.port_rules import MOST_FLOWS
from kvedge.network.errors import NetworkError, NotSupportedError
from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, netns_path, run_in_netns
from kvedge.network.nft.nft_edge import change_elements
from kvedge.network.pods import pod_network
from kvedge.network.pods.attachments import NodeNetworkConfig, stable_mac
from kvedge.network.pods.forward_rules import APART, fence_keys, fence_table
from kvedge.network.pods.pod_network import attach_pod, ensure_node_network, heal_node_network
from kvedge.network.steps import ReplaceTable, SetSysctl, Step
from kvedge.network.sysctls import read_sysctl, write_sysctl
from tests.machine.network.floods import neighbours_of, packed, send_all, udp_frame
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.machine.network.test_pod_network import ADDRESSES, MACS, command, ping, ruleset
from tests.support.pod_world import GATEWAY, node_config, node_network
from tests.support.values import replace

STRANGERS = {"one": ("198.51.100.1", "198.51.100.2"), "two": ("203.0.113.1", "203.0.113.2")}
FENCE = "table ip kvedge_forward "


@contextmanager
def two_networks(config: NodeNetworkConfig, kind: str = "veth") -> Iterator[tuple[str, str]]:
    """Two neighbours of the host, each on a network of its own, with the host as their router; their namespaces.

    With the kind `bridge` the host is on these networks by a bridge each.
    """
    names = []
    try:
        for label, (here, there) in STRANGERS.items():
            name = f"{config.netns_prefix}{label}"
            path = create_netns(name)
            names.append(name)
            with Links() as links:
                links.add_veth(f"s-{label}", "eth0", path, peer_mac=f"52:54:00:77:09:0{len(names)}", mtu=1500)
                at = f"s-{label}"
                if kind == "bridge":
                    at = f"br-{label}"
                    links.add(at, "bridge")
                    links.enslave(f"s-{label}", at)
                    links.set(at, state="up")
                links.add_address(at, here, 24)
                links.set(f"s-{label}", state="up")

            def inside(here: str = here, there: str = there) -> None:
                with Links() as links:
                    links.add_address("eth0", there, 24)
                    links.set("eth0", state="up")
                    links.add_route("0.0.0.0/0", here, "eth0")

            run_in_netns(path, inside)
        yield names[0], names[1]
    finally:
        for name in names:
            delete_netns(name)


def reaches(netns: str, address: str) -> bool:
    line = ["busybox", "ping", "-c", "1", "-W", "1", address]
    done = run_in_netns(netns_path(netns), lambda: subprocess.run(line, capture_output=True, check=False))
    return done.returncode == 0


@pytest.mark.parametrize("kind", ["veth", "bridge"])
@on_a_host_of_its_own
def test_a_host_with_two_networks_is_no_router_for_strangers(kind: str) -> None:
    write_sysctl("ipv4/ip_forward", "0")
    config = node_config()
    with two_networks(config, kind) as (one, two):
        with node_network(config):
            pod = f"{config.netns_prefix}a"
            attach_pod(config, pod, ADDRESSES[0], MACS[0])
            assert read_sysctl("ipv4/ip_forward") == "1"
            assert not reaches(one, STRANGERS["two"][1])
            assert not reaches(two, STRANGERS["one"][1])
            assert ping(pod, STRANGERS["one"][1])
            assert ping(pod, STRANGERS["two"][1])
            # The host itself is reached as before, by whichever of its addresses.
            assert reaches(one, STRANGERS["two"][0])
        assert read_sysctl("ipv4/ip_forward") == "0"
        assert FENCE not in ruleset()


@on_a_host_of_its_own
def test_a_bridge_of_ours_that_was_told_apart_when_it_was_another_s_is_forwarded_for() -> None:
    write_sysctl("ipv4/ip_forward", "0")
    config = node_config()
    with two_networks(config, "bridge") as (one, _), node_network(config):
        pod = f"{config.netns_prefix}a"
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        as_others = {APART.name: fence_keys((), (config.bridge, "br-one"))[APART.name]}
        change_elements(fence_table(), add=as_others, remove={})
        assert ping(pod, STRANGERS["one"][1])
        assert not reaches(one, STRANGERS["two"][1])


@on_a_host_of_its_own
def test_a_host_that_was_a_router_stays_one() -> None:
    write_sysctl("ipv4/ip_forward", "1")
    config = node_config()
    with two_networks(config) as (one, _), node_network(config):
        heal_node_network(config)
        assert reaches(one, STRANGERS["two"][1])
        assert FENCE not in ruleset()


@on_a_host_of_its_own
def test_who_comes_later_and_translates_addresses_is_forwarded_for() -> None:
    write_sysctl("ipv4/ip_forward", "0")
    config = node_config()
    with two_networks(config) as (one, _), node_network(config):
        nat = "add table ip docker\nadd chain ip docker post { type nat hook postrouting priority 100; }\n"
        subprocess.run(["nft", "-f", "-"], input=nat, text=True, check=True)
        assert [word for word in heal_node_network(config).healed if "kvedge_forward" in word] != []
        assert reaches(one, STRANGERS["two"][1])
        assert heal_node_network(config).healed == ()
        command("nft delete table ip docker")
        assert len(heal_node_network(config).healed) == 1
        assert not reaches(one, STRANGERS["two"][1])


@on_a_host_of_its_own
def test_who_translates_addresses_by_the_older_iptables_is_forwarded_for() -> None:
    write_sysctl("ipv4/ip_forward", "0")
    line = ["iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-s", "172.17.0.0/16", "-j", "MASQUERADE"]
    if shutil.which(line[0]) is None or subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("this machine has no iptables-legacy, or its kernel not its tables")
    config = node_config()
    with two_networks(config) as (one, _), node_network(config):
        assert FENCE not in ruleset()
        assert reaches(one, STRANGERS["two"][1])


@on_a_host_of_its_own
def test_a_link_that_forwarded_before_goes_on() -> None:
    write_sysctl("ipv4/ip_forward", "0")
    config = node_config()
    with two_networks(config) as (one, _):
        for name in ("s-one", "s-two"):
            write_sysctl(f"ipv4/conf/{name}/forwarding", "1")
        assert reaches(one, STRANGERS["two"][1])
        with node_network(config):
            assert FENCE not in ruleset()
            assert reaches(one, STRANGERS["two"][1])
        assert read_sysctl("ipv4/ip_forward") == "1"


@on_a_host_of_its_own
def test_two_instances_share_what_keeps_strangers_apart() -> None:
    write_sysctl("ipv4/ip_forward", "0")
    first, second = node_config("x"), node_config("y", "10.201.78.0/24")
    with two_networks(first) as (one, _), node_network(first):
        pods = (f"{first.netns_prefix}a", f"{second.netns_prefix}a")
        attach_pod(first, pods[0], ADDRESSES[0], MACS[0])
        with node_network(second):
            attach_pod(second, pods[1], "10.201.78.9", MACS[1])
            heal_node_network(first)
            assert ping(pods[0], STRANGERS["one"][1])
            assert ping(pods[1], STRANGERS["one"][1])
            assert not reaches(one, STRANGERS["two"][1])
            assert ruleset().count(FENCE) == 1
        assert ping(pods[0], STRANGERS["one"][1])
        assert not reaches(one, STRANGERS["two"][1])
        assert second.bridge not in ruleset()


@on_a_host_of_its_own
def test_frames_that_only_pass_a_bridge_of_others_pass_also_where_they_are_filtered() -> None:
    if not Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        subprocess.run(["modprobe", "br_netfilter"], capture_output=True, check=False)
    if not Path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        pytest.skip("this kernel has no br_netfilter")
    write_sysctl("ipv4/ip_forward", "0")
    write_sysctl("bridge/bridge-nf-call-iptables", "1")
    config = node_config()
    with two_networks(config) as (one, two), node_network(config):
        with Links() as links:
            links.add("br-lan", "bridge")
            for label in STRANGERS:
                links.enslave(f"s-{label}", "br-lan")
            links.set("br-lan", state="up")

        def on_link() -> None:
            with Links() as links:
                links.add_address("eth0", "198.51.100.77", 24)

        run_in_netns(netns_path(two), on_link)
        heal_node_network(config)
        assert reaches(one, "198.51.100.77")
        pods = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for pod, address, mac in zip(pods, ADDRESSES, MACS, strict=True):
            attach_pod(config, pod, address, mac)
        assert ping(pods[0], ADDRESSES[1])
        assert ping(pods[0], GATEWAY)


def connections() -> int:
    return int(read_sysctl("netfilter/nf_conntrack_count") or "0")


@on_a_host_of_its_own
def test_a_guest_that_begins_connections_without_end_has_its_share_and_others_are_served() -> None:
    config = node_config()
    with two_networks(config), node_network(config):
        pods = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for pod, address, mac in zip(pods, ADDRESSES, MACS, strict=True):
            attach_pod(config, pod, address, mac)
        own, gateway = packed(MACS[0]), packed(stable_mac(config.bridge))
        # However long the sending takes on a busy machine, none is forgotten meanwhile.
        write_sysctl("netfilter/nf_conntrack_udp_timeout", "600")
        for target in (STRANGERS["one"][1], GATEWAY):
            ends = (ADDRESSES[0], target)
            send_all(
                pods[0],
                "eth0",
                (udp_frame(own, gateway, ends, (port, 9)) for port in range(1024, 1024 + 2 * MOST_FLOWS)),
            )
        # Its share, and what the host itself has.
        assert MOST_FLOWS // 2 < connections() < MOST_FLOWS + 100
        assert ping(pods[1], GATEWAY)
        assert ping(pods[1], STRANGERS["two"][1])
        ensure_node_network(config)
        assert ping(pods[1], STRANGERS["one"][1])


@on_a_host_of_its_own
@pytest.mark.parametrize(
    "lacking",
    [
        {"connlimit": "limits_flows"},
        {"limit": "limits_questions"},
        {"connlimit": "limits_flows", "limit": "limits_questions"},
    ],
    ids=["connections", "questions", "neither"],
)
def test_a_kernel_that_cannot_count_all_has_a_network_all_the_same(
    lacking: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(links: Links, step: Step) -> None:
        if isinstance(step, ReplaceTable) and any(f"name='{name}'" in repr(step.table) for name in lacking):
            raise NotSupportedError("cannot change nftables table", errno=errno.ENOENT)
        apply_step(links, step)

    monkeypatch.setattr(pod_network, "apply_step", without)
    config = node_config()
    with node_network(config):
        made = ensure_node_network(config)
        found = replace(config, **dict.fromkeys(lacking.values(), False))
        limits = found.limits_flows, found.limits_questions
        assert (made.limits_flows, made.limits_questions) == limits, "what can be limited is"
        assert heal_node_network(found).healed == ()
        for letter, address, mac in zip("ab", ADDRESSES, MACS, strict=True):
            attach_pod(config, f"{config.netns_prefix}{letter}", address, mac)
        assert ping(f"{config.netns_prefix}a", ADDRESSES[1])
        assert ping(f"{config.netns_prefix}a", "192.0.2.2")


@on_a_host_of_its_own
def test_a_guest_that_looks_for_everybody_by_its_gateway_makes_the_host_look_for_nobody() -> None:
    config = node_config(cidr="10.201.64.0/19")
    with node_network(config):
        pods = [f"{config.netns_prefix}{letter}" for letter in "ab"]
        for pod, address, mac in zip(pods, ADDRESSES, MACS, strict=True):
            attach_pod(config, pod, address, mac)
        own, gateway = packed(MACS[0]), packed(stable_mac(config.bridge))
        everybody = [str(IPv4Address("10.201.64.2") + number) for number in range(2000)]
        send_all(pods[0], "eth0", (udp_frame(own, gateway, (ADDRESSES[0], each), (9, 9)) for each in everybody))
        assert neighbours_of(None, config.bridge) < 20
        assert ping(pods[1], "10.201.64.1")


def test_a_link_of_others_that_goes_before_it_is_set_keeps_nobody_waiting() -> None:
    gone = "ipv6/conf/kvtgone/forwarding"
    with Links() as links:
        apply_step(links, SetSysctl(gone, "1", others=True))
        with pytest.raises(NetworkError, match="cannot set kernel setting to 1"):
            apply_step(links, SetSysctl(gone, "1"))

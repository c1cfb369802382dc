"""Measures what it costs to make a Pod's network, to bind a guest to it, and to change policies and Services.

    python -m tests.bench.network_bench [--runs 15]

Runs as root, in a network namespace of its own: `unshare -n python -m tests.bench.network_bench`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, run_in_netns
from kvedge.network.pods.pod_network import attach_pod
from kvedge.network.policies.policy_network import PolicyNetwork
from kvedge.network.services.service_network import ServiceNetwork
from kvedge.network.services.service_plan import ServiceNetworkConfig, table_name
from kvedge.network.services.service_rules import Balanced, Frontend
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import Pod
from kvedge.resources.types.network_policies import NetworkPolicy
from kvedge.standalone.networking.policy_plan import Member, plan_policies
from tests.bench.report import Report, Row, median
from tests.bench.rules_met import most_rules_met
from tests.support.pod_world import bind_pod_interface, make_pod, netns_path, node_config, node_network


def main() -> int:
    """Measure; the references are the commands of iproute2 that do the least of the same."""
    parser = argparse.ArgumentParser("tests/bench/network_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="of which the median is taken (15)")
    runs = parser.parse_args().runs
    report = Report()
    attached, bound, entered, named = [], [], [], []
    with tempfile.TemporaryDirectory() as records, node_network(node_config()) as config:
        for number in range(runs):
            begun = time.perf_counter()
            attach_pod(config, f"{config.netns_prefix}a{number}", f"10.201.77.{100 + number}")
            attached.append(time.perf_counter() - begun)
            pod = make_pod(config, f"t{number}", f"10.201.77.{30 + number}", f"52:54:00:77:01:{number:02x}")
            begun = time.perf_counter()
            bind_pod_interface(netns_path(pod), record=Path(records) / f"{number}")
            bound.append(time.perf_counter() - begun)
            name = f"{config.netns_prefix}e{number}"
            path = create_netns(name)
            begun = time.perf_counter()
            run_in_netns(path, _names)
            entered.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            subprocess.run(["ip", "-n", name, "link", "show"], check=True, capture_output=True)
            named.append(time.perf_counter() - begun)
            delete_netns(name)
    report.add(Row("a Pod's namespace, veth, address and rules", "s", median(attached)))
    report.add(Row("binding a guest to a Pod's interface", "s", median(bound)))
    report.add(Row("entering a namespace (reference: ip -n … link show)", "s", median(entered), median(named)))
    for count in (1, 100):
        first, change, met = _policies(count, runs)
        report.add(Row(f"{count} NetworkPolicies, 50 Pods: put into the kernel", "s", first))
        report.add(Row(f"{count} NetworkPolicies, 50 Pods: a Pod's labels change", "s", change))
        report.notes.append(f"{count} NetworkPolicies: a packet meets {met} rules at most")
    with node_network(node_config()):
        for count in (1, 200):
            first, change, met = _services(count, runs)
            report.add(Row(f"{count} Services: put into the kernel", "s", first))
            report.add(Row(f"{count} Services: an endpoint of one changes", "s", change))
            report.notes.append(f"{count} Services: a packet meets {met} rules at most")
    report.notes.append(f"medians of {runs}")
    report.show()
    return 0


def _policies(count: int, runs: int) -> tuple[float, float, int]:
    """How long it takes from the objects to the kernel, all at once, and after a change of one Pod; and rules met."""
    network = PolicyNetwork(node_config())
    policies = [decode(NetworkPolicy, _policy(number)) for number in range(count)]
    members = [Member(decode(Pod, _pod(number)), f"none{number}") for number in range(50)]
    changed = [Member(decode(Pod, _pod(0, app="app7")), "none0"), *members[1:]]
    try:
        begun = time.perf_counter()
        network.apply(plan_policies(policies, (), members).pods)
        first = time.perf_counter() - begun
        met = _most_rules_met()
        took = []
        for number in range(runs):
            begun = time.perf_counter()
            network.apply(plan_policies(policies, (), (changed, members)[number % 2]).pods)
            took.append(time.perf_counter() - begun)
    finally:
        network.remove()
    return first, median(took), met


def _services(count: int, runs: int) -> tuple[float, float, int]:
    """How long the kernel takes for all of them, two endpoints each, and for another endpoint of one; rules met."""
    node = node_config()
    config = ServiceNetworkConfig(
        bridge=node.bridge, pod_cidr=node.cidr, service_cidr="10.244.0.0/16", table=table_name(node.table)
    )
    network, taken = ServiceNetwork(config), []

    def service(number: int, other: int) -> Balanced:
        ways = (("10.201.77.2", 8080), ("10.201.77.3", 8080 + other))
        return Balanced(Frontend(f"10.244.{number // 250}.{number % 250 + 1}", "TCP", 80), ways)

    whole = [service(number, 0) for number in range(count)]
    begun = time.perf_counter()
    network.apply(whole)
    first = time.perf_counter() - begun
    met = _most_rules_met()
    for number in range(runs):
        whole[0] = service(0, number + 1)
        begun = time.perf_counter()
        network.apply(whole)
        taken.append(time.perf_counter() - begun)
    network.apply(())
    return first, median(taken), met


def _most_rules_met() -> int:
    """The most rules of this namespace that one packet can meet, over all hooks."""
    listed = subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    return most_rules_met(json.loads(listed)["nftables"])


def _policy(number: int) -> JsonObject:
    peers: list[JsonObject] = [
        {"podSelector": {"matchLabels": {"app": f"app{number % 7}"}}},
        {"ipBlock": {"cidr": f"10.{number}.0.0/16", "except": [f"10.{number}.4.0/24"]}},
    ]
    ports: list[JsonObject] = [{"port": 80}, {"port": 8000 + number, "endPort": 9000}]
    spec = {"podSelector": {"matchLabels": {"app": f"app{number % 10}"}}, "ingress": [{"from": peers, "ports": ports}]}
    return {"metadata": {"name": f"p{number}", "namespace": "default"}, "spec": spec}


def _pod(number: int, app: str = "") -> JsonObject:
    labels = {"app": app or f"app{number % 10}"}
    metadata = {"name": f"pod{number}", "namespace": "default", "uid": f"u{number}", "labels": labels}
    return {"metadata": metadata, "status": {"podIP": f"10.201.77.{number + 2}", "phase": "Running"}}


def _names() -> list[str]:
    with Links() as links:
        return sorted(link.name for link in links.list_links())


if __name__ == "__main__":
    sys.exit(main())

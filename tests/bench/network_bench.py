"""Measures what it costs to make a Pod's network and to bind a guest to it.

    python -m tests.bench.network_bench [--runs 15]

Runs as root, in a network namespace of its own: `unshare -n python -m tests.bench.network_bench`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kvedge.network.links import Links
from kvedge.network.netns import create_netns, delete_netns, run_in_netns
from kvedge.network.pods.pod_network import attach_pod
from tests.bench.report import Report, Row, median
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
    report.notes.append(f"medians of {runs}")
    report.show()
    return 0


def _names() -> list[str]:
    with Links() as links:
        return sorted(link.name for link in links.list_links())


if __name__ == "__main__":
    sys.exit(main())

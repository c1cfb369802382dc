"""Measures what a scrape costs handler and api role, with 1, 20 and 100 guests on one node.

    python -m tests.bench.metrics_bench [--runs 15]

Needs neither root nor guests: launchers are played, each with two vCPUs, two disks and a NIC. What libvirt and gRPC
cost a launcher is not in it, nor the API server's part. Each guest has a VM.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Final

from kvedge.api.metrics.metrics_server import MetricsServer
from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.handler.launchers.launcher_connections import Key
from kvedge.handler.launchers.node_stats import StatsReader
from kvedge.resources.codec import decode
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc.launcher_pb2 import DomainStats, StatsPart
from tests.bench.report import Report, Row, median
from tests.support.builders import small_vmi, vm_of

_COUNTS: Final = (1, 20, 100)
_NODE: Final = "node1"
_DISK: Final = tuple(f"{way}.{what}" for way in ("rd", "wr", "fl") for what in ("reqs", "bytes", "times"))
_NIC: Final = tuple(f"{way}.{what}" for way in ("rx", "tx") for what in ("bytes", "pkts", "errs", "drop"))
_MORE: Final = ("cpu.affinity", "load.1m", "load.5m", "load.15m", "dirtyrate.bytes_per_second")
_MEMORY: Final = ("current", "maximum", "rss", "available", "unused", "usable", "disk_caches", "swap_in", "swap_out")


class PlayedNode:
    """A node with guests, as the api role's reader and the handler's connections."""

    def __init__(self, count: int) -> None:
        self._keys = [("default", f"vm{number}") for number in range(count)]
        names = [name for _, name in self._keys]
        self._seen = SeenObjects([_vm(name) for name in names], [_vmi(name) for name in names])
        self._reader = StatsReader(self, _never_fresh)  # type: ignore[arg-type]  # all that it uses

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def known_keys(self) -> list[Key]:
        return self._keys

    async def call_async(self, key: Key, method: str, request: object, seconds: float) -> DomainStats:
        return DomainStats.FromString(_ANSWER)

    async def read_objects(self) -> SeenObjects:
        return self._seen

    async def read_homes(self) -> dict[tuple[str, str], str]:
        return {(vmi.metadata.namespace, vmi.metadata.name): vmi.status.node_name for vmi in self._seen.vmis}

    async def relays(self) -> dict[str, str]:
        return {_NODE: "played"}

    async def may_list(self, user: object, resource: str) -> bool:
        return True

    async def ask_node(self, node: str, address: str) -> bytes:
        return await self._reader.read()

    def server(self) -> MetricsServer:
        """An api role that collects at each scrape."""
        roles = RoleCollector(self.relays, self.ask_node, "", self.read_objects)
        return MetricsServer(
            self, self.read_objects, self.read_homes, self.ask_node, roles, lambda: None, Configuration, _never_fresh
        )


def main() -> int:
    """Measure; the reference of each is one guest."""
    parser = argparse.ArgumentParser("tests/bench/metrics_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=15, help="of which the median is taken (15)")
    runs = parser.parse_args().runs
    report = Report()
    taken = {count: asyncio.run(_measure(count, runs)) for count in _COUNTS}
    for count, (milliseconds, size) in taken.items():
        what = f"a scrape of {count} guest{'s' if count > 1 else ''}: CPU ({size >> 10} KiB)"
        report.add(Row(what, "ms", milliseconds, taken[_COUNTS[0]][0]))
    report.notes.append(f"medians of {runs}; load {os.getloadavg()[0]:.1f} at the end")
    report.show()
    return 0


async def _measure(count: int, runs: int) -> tuple[float, int]:
    server, found, size = PlayedNode(count).server(), [], 0
    for _ in range(runs):
        begun = time.process_time()
        size = len(await server.collect())
        found.append((time.process_time() - begun) * 1000)
    return median(found), size


def _never_fresh() -> float:
    """A clock by which each answer is too old for the next question."""
    _ticks[0] += 10.0
    return _ticks[0]


def _vmi(name: str) -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"]["name"] = name
    document["status"] = {"phase": "Running", "nodeName": _NODE}
    return decode(VirtualMachineInstance, document)


def _vm(name: str) -> VirtualMachine:
    document = vm_of(small_vmi())
    document["metadata"]["name"] = name
    document["status"] = {"printableStatus": "Running"}
    return decode(VirtualMachine, document)


def _figures(names: Sequence[str]) -> dict[str, int]:
    return {name: 10**9 + number for number, name in enumerate(names)}


_ticks: Final = [0.0]
_ANSWER: Final = DomainStats(
    complete=True,
    figures=_figures(["cpu.time", "cpu.user", "cpu.system", *_MORE, *(f"balloon.{name}" for name in _MEMORY)]),
    vcpus=[StatsPart(name=str(n), state="running", figures=_figures(["time", "wait", "delay"])) for n in range(2)],
    disks=[StatsPart(name=name, figures=_figures(_DISK)) for name in ("root", "cloudinit")],
    nics=[StatsPart(name="default", figures=_figures(_NIC))],
).SerializeToString()


if __name__ == "__main__":
    sys.exit(main())

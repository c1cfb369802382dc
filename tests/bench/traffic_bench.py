"""Measures TCP between host and guest through each binding, against the same tap and bridge without kvedge.

    python -m tests.bench.traffic_bench [--mib 32] [--requests 100] [--runs 7]

Needs root. All guests boot the same image; they and the bare one are measured in turns, each first in its turn. A
guest's web server reads and writes, so that the figures are those of an emulated guest, and the ratios are what counts.
The bare guest has the CPU that emulated VMs have: with QEMU's default one it takes a third less for a connection, for
each of which the web server forks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from kvedge.launcher.cloudinit.iso import write_iso
from kvedge.resources.codec import JsonObject
from tests.bench.report import Goal, Report, Row, median, missed
from tests.support.box import Box
from tests.support.guest import build_guest
from tests.support.hotplug_guest import USER_DATA, hotplug_vm
from tests.support.waiting import wait_until

_IMAGE: Final = "local/traffic-bench:1"
# How much slower than the bare guest each may be: its share of the throughput, turned over.
_GOALS: Final = {"bridge": 1 / 0.95, "masquerade": 1 / 0.9}
_BRIDGE, _TAP = "kvbench-b", "kvbench-t"
# Throws away what it is sent, and says how much that was.
_SINK: Final = r"""
cat >/www/cgi-bin/sink <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
wc -c
END
chmod 755 /www/cgi-bin/sink
"""
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _Guest:
    """A guest by its address."""

    def __init__(self, address: str) -> None:
        self._base = f"http://{address}"
        wait_until(lambda: self._is_up(), f"{address} runs commands", 180, 0.3)

    def _is_up(self) -> bool:
        try:
            return self.run("echo up") == "up\n"
        except OSError:
            return False

    def ask(self, path: str, body: bytes | None = None) -> bytes:
        """What its web server answers."""
        with _OPENER.open(urllib.request.Request(f"{self._base}{path}", data=body), timeout=60) as answer:
            return bytes(answer.read())

    def run(self, command: str) -> str:
        """What a command of root's prints there."""
        return self.ask("/cgi-bin/run", command.encode()).decode()


def main() -> int:
    """Measure; 0 when every goal was met, 1 when one was not."""
    parser = argparse.ArgumentParser("tests/bench/traffic_bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=32, help="sent and fetched at a time (32; a guest has 128)")
    parser.add_argument("--requests", type=int, default=100, help="for a small page, one after the other (100)")
    parser.add_argument("--runs", type=int, default=7, help="of which the median is taken (7)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("tests/bench/traffic_bench: needs root, as kvedge standalone does\n")
        return 5
    report, directory = Report(), Path(tempfile.mkdtemp(prefix="kvbench-", dir="/var/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory)
        directory.chmod(0o755)
        guests = stack.enter_context(_vms(directory))
        mtu = int(guests["bridge"].run("cat /sys/class/net/eth0/mtu"))
        bare = stack.enter_context(_by_hand(directory, mtu))
        _measure(guests, bare, options, report)
    report.notes.append(
        f"medians of {options.runs}, taken in turns; MTU {mtu}; load {os.getloadavg()[0]:.1f} at the end"
    )
    report.show()
    return 1 if missed(report.rows, by_ratio=False) else 0


def _measure(guests: dict[str, _Guest], bare: _Guest, options: argparse.Namespace, report: Report) -> None:
    size = options.mib << 20
    everyone = [*guests.values(), bare]
    for guest in everyone:
        guest.run(f"dd if=/dev/zero of=/www/file bs=1M count={options.mib}")

    def fetch(guest: _Guest) -> None:
        assert len(guest.ask("/file")) == size

    def send(guest: _Guest) -> None:
        assert int(guest.ask("/cgi-bin/sink", bytes(size))) == size

    def chat(guest: _Guest) -> None:
        for _ in range(options.requests):
            guest.ask("/facts")

    kinds = {
        f"{options.mib} MiB from the guest": fetch,
        f"{options.mib} MiB to the guest": send,
        f"{options.requests} connections with a small page each": chat,
    }
    for what, act in kinds.items():
        taken: dict[_Guest, list[float]] = {guest: [] for guest in everyone}
        for number in range(options.runs):
            first = number % len(everyone)
            for guest in everyone[first:] + everyone[:first]:
                begun = time.monotonic()
                act(guest)
                taken[guest].append(time.monotonic() - begun)
        for binding, guest in guests.items():
            row = Row(f"{binding}: {what}", "s", median(taken[guest]), median(taken[bare]), Goal(ratio=_GOALS[binding]))
            report.add(row)


@contextmanager
def _vms(directory: Path) -> Iterator[dict[str, _Guest]]:
    """A VM of one box for each binding."""
    box = Box(directory / "data", f"10.93.{os.getpid() % 256}.0/24", log_level="info")
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest().disk, _IMAGE)
        box.start()
        for binding in _GOALS:
            box.apply(_vm(binding))
        found = {}
        for binding in _GOALS:
            box.wait_phase(binding, "Running")
            box.wait_answer(binding)
            vmi = box.vmi(binding)
            assert vmi is not None
            found[binding] = _Guest(vmi.status.interfaces[0].ip_address)
        yield found
    finally:
        box.remove()


def _vm(binding: str) -> JsonObject:
    made = hotplug_vm(binding, _IMAGE)
    spec = made["spec"]["template"]["spec"]
    spec["domain"]["devices"]["interfaces"] = [{"name": "default", binding: {}}]
    spec["volumes"][-1]["cloudInitNoCloud"]["userData"] = USER_DATA + _SINK
    return made


@contextmanager
def _by_hand(directory: Path, mtu: int) -> Iterator[_Guest]:
    """QEMU on a tap in a bridge, with an address that nobody serves."""
    disk, seed = directory / "root.qcow2", directory / "seed.iso"
    shutil.copy(build_guest().disk, disk)
    net = f"10.92.{os.getpid() % 256}"
    # Under another name the guest's own scripts leave the NIC alone.
    address = f"""
ip link set eth0 name lan0
ip link set lan0 mtu {mtu} up
ip addr add {net}.2/24 dev lan0
"""
    write_iso(
        seed, "cidata", {"meta-data": b"instance-id: bench\n", "user-data": (USER_DATA + _SINK + address).encode()}
    )
    command = ["qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", "128"]
    command += ["-display", "none", "-nodefaults"]
    drive, form = "if=none,cache=none,aio=threads", {disk: "format=qcow2", seed: "format=raw,readonly=on"}
    for number, (path, kind) in enumerate(form.items()):
        command += ["-drive", f"file={path},id=d{number},{drive},{kind}", "-device", f"virtio-blk-pci,drive=d{number}"]
    vhost = ",vhost=on" if Path("/dev/vhost-net").exists() else ""
    command += ["-netdev", f"tap,id=n,ifname={_TAP},script=no,downscript=no{vhost}"]
    command += ["-device", "virtio-net-pci,netdev=n,mac=52:54:00:77:0b:01"]
    try:
        for line in (
            f"link add {_BRIDGE} mtu {mtu} type bridge",
            f"address add {net}.1/24 dev {_BRIDGE}",
            f"tuntap add {_TAP} mode tap",
            f"link set {_TAP} mtu {mtu} master {_BRIDGE} up",
            f"link set {_BRIDGE} up",
        ):
            subprocess.run(["ip", *line.split()], check=True)
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
            try:
                yield _Guest(f"{net}.2")
            finally:
                process.kill()
    finally:
        for name in (_TAP, _BRIDGE):
            subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())

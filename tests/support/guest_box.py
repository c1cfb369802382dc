"""A box with the tests' guest for the tests of one file; in the end nothing of it is left, and no role lacked a right.

Used by the machine tests. A box takes seconds to start: tests of one subject share it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.box import Box, service_cidr_for
from tests.support.guest import build_guest


@contextmanager
def guest_box(
    directory: Path,
    pod_cidr: str,
    image: str,
    *,
    agent: bool = False,
    uefi: bool = False,
    options: Sequence[str] = (),
) -> Iterator[Box]:
    """A running box whose store has the guest under that name; `agent`: with a guest agent in it, `uefi`: on a disk
    that boots on UEFI, too.
    """
    found = Box(directory / "data", pod_cidr)
    found.options += options
    found.data_dir.mkdir()
    try:
        found.import_image(build_guest(agent=agent, uefi=uefi).disk, image)
        found.start()
        bridge = _bridge_of(pod_cidr)
        yield found
        # A role that lacks a right tries again for ever, and only its log tells.
        forbidden = [line for line in found.log.read_text().splitlines() if "is forbidden" in line]
    finally:
        found.remove()
    assert left_behind(found, bridge) == []
    assert forbidden == []


def left_behind(box: Box, bridge: str) -> list[str]:
    """What carries this box's mark of processes, links, mounts, rules and ways; `bridge` is the one of its Pods."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found = [f"mount {line}" for line in mounts if str(box.data_dir) in line]
    processes = _output("ps", "-eo", "args").splitlines()
    found += [f"process {line}" for line in processes if str(box.data_dir) in line and "pytest" not in line]
    links = json.loads(_output("ip", "-j", "link"))
    marked = [link["ifname"] for link in links if bridge in (link["ifname"], *link.get("ifalias", "").split())]
    found += [f"link {name}" for name in marked]
    pods = box.pod_cidr.rpartition(".")[0]
    rules = _output("nft", "list", "ruleset")
    found += [f"table {line}" for line in rules.splitlines() if line.startswith("table") and bridge in line]
    found += [f"rules about {cidr}" for cidr in (box.pod_cidr, service_cidr_for(box.pod_cidr)) if cidr in rules]
    for what in ("address", "route show table all", "rule", "neighbour"):
        for version in ("-4", "-6"):
            lines = _output("ip", version, "-o", *what.split()).splitlines()
            found += [f"{what}: {line}" for line in lines if bridge in line.split() or f" {pods}." in f" {line}"]
    spaces = [line.split()[0] for line in _output("ip", "netns").splitlines() if line]
    found += [f"namespace {name}" for name in spaces if name.startswith(f"{bridge}-")]
    return found


def _bridge_of(pod_cidr: str) -> str:
    """The link that has the Pod network's first address."""
    first = f"{pod_cidr.rpartition('.')[0]}.1"
    links = json.loads(_output("ip", "-j", "addr"))
    (name,) = [link["ifname"] for link in links if any(each.get("local") == first for each in link["addr_info"])]
    return str(name)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

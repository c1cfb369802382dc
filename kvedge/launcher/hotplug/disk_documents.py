"""The documents of disks, and of NICs, that are to be plugged into a running domain.

Runs in a process of its own (`document_process` starts it), as the VMI's types and the converter would otherwise stay
in the launcher. One disk that cannot be rendered keeps no other one back. Looks at the disks' files.
"""

from __future__ import annotations

import json
import select
import sys
from typing import Any, Final, TextIO
from xml.etree.ElementTree import tostring

from kvedge.launcher.disks.hotplug_sources import find_hotplug_source
from kvedge.launcher.disks.vmi_preparation import this_architecture
from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.disk_targets import assign_targets
from kvedge.launcher.domain.elements.disk_xml import disk_element
from kvedge.launcher.domain.elements.iothread_plan import plan_io_threads
from kvedge.launcher.domain.platform import platform_of
from kvedge.launcher.hotplug.nic_documents import nic_documents
from kvedge.resources.codec import DecodeError, decode
from kvedge.resources.types.vmi import VirtualMachineInstance

_LARGEST: Final = 16 << 20
# How long a process that was started ahead keeps its memory, of the guest's cgroup, for a question that does not come.
# Most volumes come within seconds; for one that takes longer the process is loaded anew, which costs 0.2 s.
WAIT_SECONDS: Final = 15.0


def write_documents(source: TextIO, target: TextIO) -> int:
    """Answer the question that `document_process` has written; the exit code."""
    text = source.read(_LARGEST)
    if not text:
        # The launcher has no question any more.
        return 0
    question = json.loads(text)
    json.dump(nic_documents(question) if "nics" in question else documents(question), target)
    return 0


def documents(question: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By disk: `xml` and the `ioThread` that it needs (0: none), or the `error` that keeps it from being one.

    The question has `vmi`, `names` of disks, `present` (targets in the domain by name), `root`, `libvirtVersion`.
    """
    try:
        vmi = decode(VirtualMachineInstance, question["vmi"])
        targets = assign_targets(vmi, question["present"])
    except DecodeError as error:
        return {name: {"error": f"{error.path or 'the VMI'}: {error.detail}"} for name in question["names"]}
    places = {disk.name: index for index, disk in enumerate(vmi.spec.domain.devices.disks)}
    made = {}
    for name in question["names"]:
        try:
            made[name] = _document(vmi, places[name], targets[name], question)
        except (ConversionError, OSError) as error:
            made[name] = {"error": str(error)}
    return made


def _document(vmi: VirtualMachineInstance, index: int, target: str, question: dict[str, Any]) -> dict[str, Any]:
    name = vmi.spec.domain.devices.disks[index].name
    context = DomainContext(
        architecture=this_architecture(),
        emulation=False,
        serial_socket="",
        vnc_socket="",
        disk_sources={name: find_hotplug_source(vmi, name, question["root"])},
        libvirt_version=question["libvirtVersion"],
    )
    element = disk_element(
        vmi, index, target, platform_of(vmi, context.architecture), context, plan_io_threads(vmi, context)
    )
    driver = element.find("driver")
    thread = driver.get("iothread", "0") if driver is not None else "0"
    return {"xml": tostring(element, encoding="unicode"), "ioThread": int(thread)}


def main() -> int:
    """The program."""
    if not select.select([sys.stdin], [], [], WAIT_SECONDS)[0]:
        return 0
    return write_documents(sys.stdin, sys.stdout)

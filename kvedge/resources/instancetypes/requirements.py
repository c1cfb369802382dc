"""Whether a VM has what its preference requires, in KubeVirt's words.

Called by admission. Pure. The spec is that of the VM with its instance type, its preference and the defaults.
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.cpu_topology import (
    ACROSS,
    ANY,
    CORES,
    SOCKETS,
    SPREAD,
    THREADS,
    preferred_topology,
    spread_options,
)
from kvedge.resources.values.quantities import QuantityError, parse_quantity

_SPEC: Final = "spec.template.spec"
_CPU: Final = f"{_SPEC}.domain.cpu"
_TYPE: Final = "spec.instancetype"


def find_unmet(given: JsonObject | None, preference: JsonObject, spec: JsonObject) -> tuple[str, str]:
    """The fields and the fault of the first requirement that is not met; empty texts when all are."""
    needs = preference.get("requirements") or {}
    for unmet in (
        _find_cpu(given, preference, spec, needs.get("cpu")),
        _find_memory(given, spec, needs.get("memory")),
        _find_architecture(spec, needs.get("architecture")),
    ):
        if unmet[1]:
            return unmet
    return "", ""


def _find_cpu(
    given: JsonObject | None, preference: JsonObject, spec: JsonObject, need: JsonObject | None
) -> tuple[str, str]:
    if need is None:
        return "", ""
    wanted = int(need["guest"])
    if given is not None:
        has = int(given["cpu"]["guest"])
        text = f"insufficient CPU resources of {has} vCPU provided by instance type, preference requires {wanted} vCPU"
        return (_TYPE, text) if has < wanted else ("", "")
    cpu = (spec.get("domain") or {}).get("cpu")
    if cpu is None:
        return _CPU, f"no CPU resources provided by VirtualMachine, preference requires {wanted} vCPU"
    names, words = _find_counted(preference)
    has = 1
    for name in names:
        has *= int(cpu.get(name) or 0)
    if has >= wanted:
        return "", ""
    return ", ".join(f"{_CPU}.{name}" for name in names), (
        f"insufficient CPU resources of {has} vCPU provided by VirtualMachine, preference requires {wanted} vCPU"
        f" provided as {words}"
    )


def _find_counted(preference: JsonObject) -> tuple[tuple[str, ...], str]:
    """The members of the VM's topology whose product counts, and what messages call them."""
    topology = preferred_topology(preference)
    if topology == ANY:
        return (CORES, SOCKETS, THREADS), "cores, sockets and threads"
    if topology == SPREAD:
        across = spread_options(preference)[1]
        return tuple(ACROSS.get(across, (SOCKETS, CORES))), across
    return (topology,), topology


def _find_memory(given: JsonObject | None, spec: JsonObject, need: JsonObject | None) -> tuple[str, str]:
    if need is None:
        return "", ""
    wanted = need["guest"]
    memory = (spec.get("domain") or {}).get("memory") or {}
    provided = memory.get("guest")
    if provided is None:
        provided = "0" if given is None else given["memory"]["guest"]
    try:
        if parse_quantity(provided) >= parse_quantity(wanted):
            return "", ""
    except QuantityError:
        # A rule of its own refuses it.
        return "", ""
    where, whose = (f"{_SPEC}.domain.memory", "VirtualMachine") if given is None else (_TYPE, "instance type")
    return where, f"insufficient Memory resources of {provided} provided by {whose}, preference requires {wanted}"


def _find_architecture(spec: JsonObject, need: str | None) -> tuple[str, str]:
    has = spec.get("architecture") or ""
    if not need or has == need:
        return "", ""
    return f"{_SPEC}.architecture", f"preference requires architecture {need} but {has} is being requested"

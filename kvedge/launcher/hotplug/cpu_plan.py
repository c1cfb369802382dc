"""How many vCPUs a running domain is to get.

Called by `cpu_keeper`. Pure: no clock, no libvirt. vCPUs are never taken out: no guest can be relied on to let go.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DomainFacts

_COUNTS: Final = ("sockets", "cores", "threads")


class CpuStep(NamedTuple):
    """Have this many; `refusal` is why that cannot be, or empty."""

    vcpus: int
    refusal: str = ""

    @property
    def name(self) -> str:
        """There is one such step at a time."""
        return "vcpus"


def read_wanted_vcpus(document: bytes) -> int:
    """How many a VMI wants, of its JSON; 0 for one that says nothing of sockets, which cannot grow.

    Its types would stay in the launcher for the guest's whole life.

    Raises:
        BadRequest: when the document is no VMI.
    """
    try:
        spec = json.loads(document or b"{}").get("spec") or {}
        cpu = (spec.get("domain") or {}).get("cpu") or {}
        sockets, cores, threads = (int(cpu.get(name) or 0) for name in _COUNTS)
    except (ValueError, AttributeError, TypeError) as error:
        raise BadRequest("the VMI", f"cannot be read: {error!r}") from error
    return sockets * max(1, cores) * max(1, threads)


def plan_cpus(wanted: int, facts: DomainFacts) -> list[CpuStep]:
    """The step that is due, if any."""
    if wanted <= facts.vcpus or not facts.vcpus:
        return []
    if wanted > facts.most_vcpus:
        return [
            CpuStep(wanted, f"the guest was started with room for {facts.most_vcpus} vCPUs, and is to have {wanted}")
        ]
    return [CpuStep(wanted)]

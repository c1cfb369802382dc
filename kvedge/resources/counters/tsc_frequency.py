"""The frequency of the counter (TSC) by which a guest tells time: which guests count on it, and what nodes have.

Called by the controller, which tells a run the frequency, by the handler, by the launcher, and by snapshots. Pure. QEMU
moves such a guest, and saves its memory, only when it was told one at its start. The labels, the tolerance and the
status are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.resources.names import TSC_FREQUENCY, TSC_SCALABLE
from kvedge.resources.types.domain import DomainSpec, is_on
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.whole_numbers import INT64, whole_number

INVTSC: Final = "spec.domain.cpu.features[invtsc]"
REENLIGHTENMENT: Final = "spec.domain.features.hyperv.reenlightenment"
# Policies of a CPU feature by which a guest certainly has it; "" is libvirt's require.
_HAVING: Final = frozenset({"", "require", "force"})
# In how many parts one is an unscalable counter fast enough, or slow enough: 250 in a million.
_TOLERANCE: Final = 4000
# In Hz. No CPU counts slower: a label that says so tells nothing, and least of all what the guests of all nodes get.
_SLOWEST: Final = 100_000_000


def find_clock_field(domain: DomainSpec) -> str:
    """The field by which a guest counts on the frequency; empty for none."""
    cpu, features = domain.cpu, domain.features
    if cpu is not None and any(each.name == "invtsc" and each.policy in _HAVING for each in cpu.features):
        return INVTSC
    hyperv = None if features is None else features.hyperv
    return REENLIGHTENMENT if hyperv is not None and is_on(hyperv.reenlightenment) else ""


def find_told_frequency(vmi: VirtualMachineInstance) -> int | None:
    """In Hz, what this run was told; None for a guest that does not count on it, or was told none."""
    hints = vmi.status.topology_hints
    told = None if hints is None else hints.tsc_frequency
    return told if told is not None and told > 0 and find_clock_field(vmi.spec.domain) else None


def choose_frequency(node: Mapping[str, str], others: Iterable[Mapping[str, str]]) -> int | None:
    """In Hz, for a guest that starts on a node, by the labels of all: the lowest of them where it can have that, so
    that it can go anywhere; None where its node tells none.
    """
    own = _read(node)
    if own is None or node.get(TSC_SCALABLE) != "true":
        return own
    return min((found for each in others if (found := _read(each)) is not None), default=own)


def find_range(hertz: int) -> tuple[int, int]:
    """Between which frequencies, themselves left out, a counter passes for one of that many."""
    tolerance = hertz // _TOLERANCE
    return hertz - tolerance - 1, hertz + tolerance + 1


def _read(labels: Mapping[str, str]) -> int | None:
    return whole_number(labels.get(TSC_FREQUENCY, ""), (_SLOWEST, INT64[1]))

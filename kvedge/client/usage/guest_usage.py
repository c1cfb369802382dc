"""What each guest uses: two looks at the metrics, and the rates between them.

Called by `kvedge top`. Reads the aggregated API; what follows from two looks is pure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.client.harmless_text import harmless
from kvedge.client.session import Session
from kvedge.client.usage.metrics_text import Sample, read_samples
from kvedge.resources.codec import JsonObject

_PATH: Final = "/apis/subresources.kubevirt.io/v1/metrics"
# An older server does not know it, and tells more.
_GUESTS: Final = {"guests": "true"}
# The field of `Figures` that a series is added to.
_SUMMED: Final[Mapping[str, str]] = {
    "kubevirt_vmi_cpu_usage_seconds_total": "cpu",
    "kubevirt_vmi_memory_resident_bytes": "resident",
    "kubevirt_vmi_memory_domain_bytes": "memory",
    "kubevirt_vmi_memory_available_bytes": "available",
    "kubevirt_vmi_memory_usable_bytes": "usable",
    "kubevirt_vmi_storage_read_traffic_bytes_total": "read",
    "kubevirt_vmi_storage_write_traffic_bytes_total": "written",
    "kubevirt_vmi_network_receive_bytes_total": "received",
    "kubevirt_vmi_network_transmit_bytes_total": "sent",
}
_UP: Final = "kvedge_vmi_stats_up"
_NODE_UP: Final = "kvedge_node_stats_up"
_READ: Final = frozenset((*_SUMMED, _UP, _NODE_UP))
_LONGEST: Final = 253


class Figures(Struct):
    """One guest at one look: seconds of CPU time, bytes; counters since its start. None where nobody tells."""

    node: str = ""
    answers: bool = False
    sums: dict[str, float] = field(default_factory=dict)


class Look(Struct, frozen=True):
    """All guests at one moment, in seconds of a clock that goes forward; and nodes that did not answer."""

    moment: float
    guests: Mapping[tuple[str, str], Figures]
    silent_nodes: tuple[str, ...] = ()


class GuestUse(Struct, frozen=True):
    """What a guest uses: CPUs, bytes, and bytes a second; None where it is not known."""

    namespace: str
    name: str
    node: str
    answers: bool
    cpus: float | None
    memory: float | None
    resident: float | None
    read: float | None
    written: float | None
    received: float | None
    sent: float | None

    def document(self) -> JsonObject:
        """As `-o json` prints it."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "node": self.node,
            "answers": self.answers,
            "cpus": _round(self.cpus, 3),
            "guestMemoryBytes": _round(self.memory),
            "residentBytes": _round(self.resident),
            "readBytesPerSecond": _round(self.read),
            "writtenBytesPerSecond": _round(self.written),
            "receivedBytesPerSecond": _round(self.received),
            "sentBytesPerSecond": _round(self.sent),
        }


def look(session: Session, clock: Callable[[], float] = time.monotonic) -> Look:
    """Look at all guests.

    Raises:
        KubeError: when the server refuses, or does not answer.
    """
    return read_look(read_samples(session.client.content(_PATH, _GUESTS), _READ), clock())


def read_look(samples: Iterable[Sample], moment: float) -> Look:
    """What the metrics say of guests."""
    guests: dict[tuple[str, str], Figures] = {}
    silent = []
    for sample in samples:
        if sample.name == _NODE_UP and not sample.value:
            silent.append(_clean(sample.labels.get("node", "")))
        name = _SUMMED.get(sample.name)
        if name is None and sample.name != _UP:
            continue
        key = (_clean(sample.labels.get("namespace", "")), _clean(sample.labels.get("name", "")))
        figures = guests.setdefault(key, Figures())
        figures.node = _clean(sample.labels.get("node", ""))
        if name is None:
            figures.answers = sample.value > 0
        else:
            figures.sums[name] = figures.sums.get(name, 0.0) + sample.value
    return Look(moment, guests, tuple(sorted(silent)))


def compare(before: Look, after: Look) -> list[GuestUse]:
    """What the guests of the later look have used since the earlier one, by namespace and name."""
    seconds = after.moment - before.moment
    return [_use(*key, figures, before.guests.get(key), seconds) for key, figures in sorted(after.guests.items())]


def order(uses: Iterable[GuestUse], by: str) -> list[GuestUse]:
    """The guests that use most first: by `cpu`, `memory`, `disk` or `network`; by `name` as they are."""
    if by == "name":
        return list(uses)
    measures: dict[str, Callable[[GuestUse], float]] = {
        "cpu": lambda use: use.cpus or 0.0,
        "memory": lambda use: use.resident or 0.0,
        "disk": lambda use: (use.read or 0.0) + (use.written or 0.0),
        "network": lambda use: (use.received or 0.0) + (use.sent or 0.0),
    }
    return sorted(uses, key=measures[by], reverse=True)


def make_cells(uses: Sequence[GuestUse], *, with_namespace: bool) -> list[list[str]]:
    """The table, its heads first."""
    heads = ["NAME", "NODE", "CPU", "GUEST MEMORY", "QEMU MEMORY", "READ/s", "WRITTEN/s", "RECEIVED/s", "SENT/s"]
    cells = [["NAMESPACE", *heads] if with_namespace else heads]
    for use in uses:
        row = [use.name, use.node, "-" if use.cpus is None else f"{use.cpus * 100:.0f} %"]
        figures = (use.memory, use.resident, use.read, use.written, use.received, use.sent)
        row += [show_size(figure) for figure in figures]
        if not use.answers:
            row[0] += " (does not answer)"
        cells.append([use.namespace, *row] if with_namespace else row)
    return cells


def _use(namespace: str, name: str, now: Figures, then: Figures | None, seconds: float) -> GuestUse:
    sums = now.sums

    def rate(what: str) -> float | None:
        if then is None or seconds <= 0 or what not in sums or what not in then.sums:
            return None
        grown = sums[what] - then.sums[what]
        # It was started anew in between: what it has used before is not known.
        return grown / seconds if grown >= 0 else None

    memory = sums.get("memory")
    if "available" in sums and "usable" in sums:
        # The guest itself says what it could do without.
        memory = max(0.0, sums["available"] - sums["usable"])
    rates = (rate(what) for what in ("read", "written", "received", "sent"))
    return GuestUse(namespace, name, now.node, now.answers, rate("cpu"), memory, sums.get("resident"), *rates)


def _clean(text: str) -> str:
    return harmless(text[:_LONGEST].encode(errors="replace"))


def _round(value: float | None, digits: int = 0) -> float | int | None:
    if value is None:
        return None
    return round(value, digits) if digits else round(value)


def show_size(value: float | None) -> str:
    """Bytes as people read them."""
    if value is None:
        return "-"
    for unit in ("", "Ki", "Mi", "Gi"):
        if value < 1024:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.1f}Ti"

"""One metric, and the document of all of them as vhostmd writes it and vm-dump-metrics reads it.

Called by `metrics_report`. Pure. Values stand in CDATA sections, so that the guest's users read them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple
from xml.dom.minidom import Document

# What a guest reads while nothing is known, as KubeVirt has it.
UNKNOWN: Final = "<metrics><!-- host metrics not available --><!-- VM metrics not available --></metrics>\n"

Context = Literal["host", "vm"]
Kind = Literal["string", "int64", "uint64", "real64"]


class Metric(NamedTuple):
    """A metric of the host or of the VM."""

    context: Context
    name: str
    kind: Kind
    value: str
    unit: str = ""


def make_seconds(context: Context, name: str, seconds: float) -> Metric:
    """A time, to the microsecond."""
    return Metric(context, name, "real64", f"{seconds:.6f}", "s")


def make_size(context: Context, name: str, kibibytes: int) -> Metric:
    """An amount of memory."""
    return Metric(context, name, "uint64", str(kibibytes), "KiB")


def render_metrics(metrics: Iterable[Metric]) -> str:
    """The document; it ends with a newline."""
    document = Document()
    root = document.createElement("metrics")
    for metric in metrics:
        element = document.createElement("metric")
        element.setAttribute("type", metric.kind)
        element.setAttribute("context", metric.context)
        if metric.unit:
            element.setAttribute("unit", metric.unit)
        name, value = document.createElement("name"), document.createElement("value")
        name.appendChild(document.createTextNode(metric.name))
        value.appendChild(document.createCDATASection(metric.value))
        element.appendChild(name)
        element.appendChild(value)
        root.appendChild(element)
    return root.toprettyxml(indent="  ")

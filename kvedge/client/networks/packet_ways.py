"""The way of a guest's packets, as text: one line for each link, from the guest outwards.

Called by `kvedge network show`. Pure. The document is that of the subresource `network`; names in it are
those of a node's links.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

HEADER: Final = ["WHERE", "LINK", "KIND", "STATE", "MTU", "FROM GUEST", "DROPPED", "TO GUEST", "DROPPED"]
_NO_HOST: Final = "A macvtap: this guest and the node itself do not reach each other by this network."
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def way_lines(interface: dict[str, Any]) -> list[list[str]]:
    """The rows of one interface: the guest's NIC first, then each link."""
    return [_guest(interface.get("status") or {}), *_links(interface.get("way") or [])]


def way_notes(interface: dict[str, Any]) -> list[str]:
    """What the links do not show of a way, in sentences."""
    is_macvtap = any(hop.get("kind") == "macvtap" for hop in interface.get("way") or [])
    return [_NO_HOST] if is_macvtap else []


def _guest(status: dict[str, Any]) -> list[str]:
    # The guest's own words, as its agent has them, may steer a terminal.
    addresses = _clean_text(", ".join(status.get("ipAddresses") or [])) or "-"
    name = _clean_text(str(status.get("interfaceName") or status.get("mac") or "-"))
    return ["guest", name, addresses, str(status.get("linkState") or "not plugged in"), "", "", "", "", ""]


def _clean_text(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _links(way: list[dict[str, Any]]) -> Iterator[list[str]]:
    for hop in way:
        state = "down" if not hop.get("up") else "up" if hop.get("carrier") else "no carrier"
        counted = [cell for key in ("fromGuest", "toGuest") for cell in _traffic(hop.get(key))]
        yield [str(hop["where"]), str(hop["name"]), str(hop["kind"]), state, str(hop["mtu"]), *counted]
        for each in hop.get("filtered") or []:
            yield ["", f"  filtered: {each['what']}", "", "", "", "", str(each["packets"]), "", ""]


def _traffic(counted: dict[str, int] | None) -> tuple[str, str]:
    if counted is None:
        return "", ""
    lost = sum(counted.get(key, 0) for key in ("dropped", "errors", "missed", "queueDropped"))
    return f"{counted['packets']} ({readable(counted['bytes'])})", str(lost)


def readable(size: int) -> str:
    """A size in its largest whole unit, with a digit behind the point."""
    number, unit = float(size), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{size} B" if unit == 0 else f"{number:.1f} {_UNITS[unit]}"

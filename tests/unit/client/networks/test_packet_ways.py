"""The way of a guest's packets, as text."""

from __future__ import annotations

import pytest

from kvedge.client.networks.packet_ways import HEADER, readable, way_lines, way_notes


def test_each_link_is_a_line_from_the_guest_outwards() -> None:
    traffic = {"packets": 7, "bytes": 2048, "dropped": 1, "errors": 2, "missed": 3, "queueDropped": 4}
    filtered = [{"what": "from another's MAC", "packets": 9, "bytes": 540}]
    tap = {"where": "pod", "name": "tap0", "kind": "tun", "up": True, "carrier": True, "mtu": 1500}
    bridge = {"where": "node", "name": "br0", "kind": "bridge", "up": True, "carrier": False, "mtu": 9000}
    status = {"mac": "02:00:00:00:00:01", "ipAddresses": ["192.0.2.9", "fd00::9"], "linkState": "up"}
    lines = way_lines(
        {
            "status": status,
            "way": [{**tap, "fromGuest": traffic, "toGuest": traffic, "filtered": filtered}, bridge | {"up": False}],
        }
    )
    assert lines == [
        ["guest", "02:00:00:00:00:01", "192.0.2.9, fd00::9", "up", "", "", "", "", ""],
        ["pod", "tap0", "tun", "up", "1500", "7 (2.0 KiB)", "10", "7 (2.0 KiB)", "10"],
        ["", "  filtered: from another's MAC", "", "", "", "", "9", "", ""],
        ["node", "br0", "bridge", "down", "9000", "", "", "", ""],
    ]
    assert {len(line) for line in lines} == {len(HEADER)}


def test_a_macvtap_says_whom_its_guest_does_not_reach() -> None:
    (note,) = way_notes({"way": [{"where": "pod", "name": "pod1", "kind": "macvtap"}]})
    assert "the node itself do not reach each other" in note
    assert way_notes({"way": [{"kind": "tun"}]}) == way_notes({}) == []


def test_what_a_guest_says_of_itself_steers_no_terminal() -> None:
    (line,) = way_lines({"status": {"interfaceName": "e\x1b[2J", "ipAddresses": ["\x1b]0;x\x07"]}})
    assert line[:4] == ["guest", "e?[2J", "?]0;x?", "not plugged in"]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 40, "5.0 TiB"), (5 << 50, "5120.0 TiB")]
)
def test_a_size_is_readable(size: int, text: str) -> None:
    assert readable(size) == text

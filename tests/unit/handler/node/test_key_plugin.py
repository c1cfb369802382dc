"""The keys that an Intel CPU has for guests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.handler.node.key_plugin import KeyPlugin, count_keys


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("tdx 31\n", 31),
        ("sev 509\nsev_es 99\ntdx 7\n", 7),
        ("sev 509\n", 0),
        ("tdx many\ntdx\n", 0),
        ("tdx 5000\n", 1000),
    ],
    ids=["keys", "among others", "of another kind", "no number", "more than a node may offer"],
)
def test_the_kernel_says_how_many_there_are(text: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "misc.capacity").write_text(text)
    assert count_keys(tmp_path / "misc.capacity") == count


def test_a_kernel_that_says_nothing_has_none(tmp_path: Path) -> None:
    assert count_keys(tmp_path / "misc.capacity") == 0


def test_each_key_is_a_device_without_a_node(tmp_path: Path) -> None:
    capacity = tmp_path / "misc.capacity"
    capacity.write_text("tdx 2")
    plugin = KeyPlugin(capacity)
    assert plugin.resource == "devices.kubevirt.io/tdx"
    assert [(item.ID, item.health) for item in plugin.render(plugin.state)] == [
        ("tdx0", "Healthy"),
        ("tdx1", "Healthy"),
    ]
    assert list(plugin.give(["tdx0"]).devices) == []
    capacity.write_text("tdx 1")
    plugin.refresh()
    assert plugin.state == 1

"""The keeper of a guest's metrics, with a libvirt that is played."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.launcher_errors import DomainMissing
from kvedge.launcher.libvirt.stats_figures import DomainFigures
from kvedge.launcher.metrics.metric_xml import UNKNOWN
from kvedge.launcher.metrics.metrics_image import make_image
from kvedge.launcher.metrics.metrics_keeper import MetricsKeeper
from kvedge.resources.disks.metrics_disk import METRICS_IMAGE, NODE_VARIABLE

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class PlayedDomain:
    """libvirt with one domain, which QEMU must not be asked about."""

    def __init__(self) -> None:
        self.runs = True

    def read_stats(self, *, ask_qemu: bool) -> DomainFigures:
        assert not ask_qemu
        if not self.runs:
            raise DomainMissing("no guest runs")
        return DomainFigures(complete=False, figures={"balloon.current": 4096})

    def look_closely(self) -> SimpleNamespace:
        return SimpleNamespace(qemu=7_002_000)


def keeper(domain: PlayedDomain, root: Path) -> MetricsKeeper:
    return MetricsKeeper(cast("LibvirtSession", domain), str(root / "run"), str(root), lambda: 77.0)


def test_the_report_is_of_the_node_and_its_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NODE_VARIABLE, "box-1")
    text = keeper(PlayedDomain(), tmp_path).report()
    for word in ("[box-1]", "[QEMU 7.2.0]", "[4096]", "[77]"):
        assert word in text


def test_a_guest_without_metrics_costs_no_thread(tmp_path: Path) -> None:
    made = keeper(PlayedDomain(), tmp_path)
    made.begin()
    assert made._thread is None


def test_the_disk_is_written_and_keeps_the_last_figures(tmp_path: Path) -> None:
    image = Path(str(tmp_path) + METRICS_IMAGE)
    image.parent.mkdir(parents=True)
    make_image(str(image), UNKNOWN)
    domain = PlayedDomain()
    made = keeper(domain, tmp_path)
    made.write()
    written = image.read_bytes()
    assert b"[QEMU 7.2.0]" in written
    domain.runs = False
    made.write()
    assert image.read_bytes() == written


def test_a_guest_that_asks_gets_two_newlines_at_the_end(tmp_path: Path) -> None:
    domain = PlayedDomain()
    made = keeper(domain, tmp_path)
    assert made.answer().endswith(b"</metrics>\n\n")
    domain.runs = False
    assert made.answer() == UNKNOWN.encode() + b"\n"

"""What the api role writes for Prometheus can be read again."""

from __future__ import annotations

import pytest

from kvedge.api.metrics.exposition import Metric, render
from kvedge.client.usage.metrics_text import Sample, read_samples


def test_what_is_written_is_read_with_every_character() -> None:
    metric = Metric("kubevirt_vmi_info", "gauge", "A guest.")
    labels = {"name": 'a"b\\c', "note": "one\nline, }\n"}
    metric.add(labels, 1)
    metric.add({"name": "b"}, 0.25)
    other = Metric("kubevirt_vmi_other", "gauge", "Of no interest.")
    other.add(labels, 2)
    assert list(read_samples(render([other, metric]).encode(), {"kubevirt_vmi_info"})) == [
        Sample("kubevirt_vmi_info", labels, 1.0),
        Sample("kubevirt_vmi_info", {"name": "b"}, 0.25),
    ]


@pytest.mark.parametrize("line", ["", "# HELP a b", "a 1", "a{} x", "a{b=} 1 2", "{} 1", 'a{b="c} 1'])
def test_a_line_that_makes_no_sense_is_left_out(line: str) -> None:
    assert [sample for sample in read_samples(line.encode(), {"a", ""}) if sample.labels] == []

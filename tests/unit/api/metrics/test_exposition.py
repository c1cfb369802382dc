"""The text that Prometheus reads, read back by its own parser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kvedge.api.metrics.exposition import Metric, Sample, render


def read_back(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_metric_has_its_help_its_type_and_its_samples() -> None:
    metric = Metric("a_total", "counter", "Help with \\ and\nlines.", [Sample({"node": "n1"}, 5), Sample({}, 0.25)])
    assert render([metric]) == (
        '# HELP a_total Help with \\\\ and\\nlines.\n# TYPE a_total counter\na_total{node="n1"} 5\na_total{} 0.25\n'
    )
    family = next(iter(text_string_to_metric_families(render([metric]))))
    assert (family.type, family.documentation) == ("counter", "Help with \\ and\nlines.")


def test_a_metric_without_samples_is_not_written() -> None:
    assert render([Metric("a", "gauge", "")]) == ""


def test_of_two_samples_with_the_same_labels_the_first_one_counts() -> None:
    metric = Metric("a", "gauge", "", [Sample({"x": "1"}, 1), Sample({"x": "1"}, 2)])
    assert read_back(render([metric])) == {"a": [({"x": "1"}, 1.0)]}


@given(st.text(max_size=100), st.integers(0, 1 << 70))
def test_any_label_and_any_number_come_back(value: str, number: int) -> None:
    text = render([Metric("a", "gauge", "", [Sample({"x": value, "y": "z"}, number)])])
    assert text.count("\n") == 3
    assert read_back(text) == {"a": [({"x": value, "y": "z"}, float(number))]}


def test_a_long_label_is_cut_and_a_lone_surrogate_is_sent() -> None:
    text = render([Metric("a", "gauge", "", [Sample({"x": "y" * 100_000}, 1), Sample({"x": "\ud800"}, 1)])])
    assert len(text.encode()) < 1000
    assert [labels["x"] for labels, _ in read_back(text)["a"]] == ["y" * 256, "?"]

"""Dashboards: what Grafana imports, of series that there are."""

from __future__ import annotations

import json

import pytest

from kvedge.resources.monitoring.dashboards import DASHBOARDS, Dashboard, dashboard_document
from tests.unit.resources.monitoring.known_metrics import KNOWN, names_in

all_dashboards = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)


@all_dashboards
def test_each_panel_asks_for_series_that_there_are(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for expression, _ in panel.queries:
            names = names_in(expression)
            assert names, panel.title
            assert names - KNOWN == set(), panel.title


@all_dashboards
def test_what_is_chosen_is_a_label_of_a_series_that_there_is(dashboard: Dashboard) -> None:
    for variable in dashboard.variables:
        series, _, label = variable.query.removeprefix("label_values(").removesuffix(")").rpartition(", ")
        assert names_in(series) <= KNOWN
        assert label == variable.name


@all_dashboards
def test_what_expressions_choose_by_can_be_chosen(dashboard: Dashboard) -> None:
    told = json.dumps(dashboard_document(dashboard))
    names = {variable.name for variable in dashboard.variables}
    for name in ("namespace", "name", "node"):
        assert (f'${name}\\"' in told) <= (name in names), name


@all_dashboards
def test_panels_lie_beside_and_below_each_other(dashboard: Dashboard) -> None:
    document = dashboard_document(dashboard)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in document["panels"]]
    assert len(set(places)) == len(places)
    assert [panel["id"] for panel in document["panels"]] == list(range(1, len(places) + 1))


@all_dashboards
def test_the_data_source_is_asked_for(dashboard: Dashboard) -> None:
    document = dashboard_document(dashboard)
    assert document["templating"]["list"][0]["type"] == "datasource"
    sources = {target["datasource"]["uid"] for panel in document["panels"] for target in panel["targets"]}
    assert sources == {"${datasource}"}


def test_dashboards_are_told_apart() -> None:
    assert len({dashboard.uid for dashboard in DASHBOARDS.values()}) == len(DASHBOARDS)

"""JSONPath as printer columns use it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.wire import jsonpath
from tests.unit.standalone.apiserver.json_strategies import OBJECTS

DOCUMENT: dict[str, Any] = {
    "metadata": {"labels": {"a.b/c": "dotted"}, "name": "vm"},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "True", "weight": 2},
            {"type": "Paused", "status": "False", "weight": 5, "message": "by hand"},
        ],
        "interfaces": [{"ipAddress": "10.0.0.2"}, {"ipAddress": "10.0.0.3"}],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.phase", ["Running"]),
        ("{.status.phase}", ["Running"]),
        ("status.phase", ["Running"]),
        ("$.status.phase", ["Running"]),
        (".status.absent.deeper", []),
        (".status.interfaces[0].ipAddress", ["10.0.0.2"]),
        (".status.interfaces[-1].ipAddress", ["10.0.0.3"]),
        (".status.interfaces[2].ipAddress", []),
        (".status.interfaces[0:1].ipAddress", ["10.0.0.2"]),
        (".status.interfaces[*].ipAddress", ["10.0.0.2", "10.0.0.3"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type == "Paused")].status', ["False"]),
        (".status.conditions[?(@.type!='Ready')].type", ["Paused"]),
        (".status.conditions[?(@.weight>=5)].type", ["Paused"]),
        (".status.conditions[?(@.weight<5)].type", ["Ready"]),
        (".status.conditions[?(@.message)].type", ["Paused"]),
        (".status.conditions[?(@.type>5)].type", []),
        (r".metadata.labels.a\.b/c", ["dotted"]),
        (".metadata.labels['a.b/c']", ["dotted"]),
        ("..ipAddress", ["10.0.0.2", "10.0.0.3"]),
        (".metadata.*", [{"a.b/c": "dotted"}, "vm"]),
    ],
)
def test_a_path_finds_what_it_names(path: str, found: list[Any]) -> None:
    assert jsonpath.parse(path).find(DOCUMENT) == found


@pytest.mark.parametrize("path", [".a[", ".a[?(x)]", ".a[b]", ".a[?(@.b==c)]", ".a[]", ".a b"])
def test_a_path_that_makes_no_sense_is_refused(path: str) -> None:
    with pytest.raises(jsonpath.JsonPathError):
        jsonpath.parse(path)


@given(st.text(alphabet=".ab[]?(@='0*:\\ ", max_size=15), OBJECTS)
def test_any_path_either_finds_or_is_refused(path: str, document: Any) -> None:
    try:
        parsed = jsonpath.parse(path)
    except jsonpath.JsonPathError:
        return
    assert isinstance(parsed.find(document), list)

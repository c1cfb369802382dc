"""fieldsV1 sets: reading, writing, showing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.schema import field_sets
from kvedge.standalone.apiserver.schema.field_sets import FieldSet

FIELDS_V1 = {
    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
    "f:spec": {
        "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}}},
        "f:finalizers": {'v:"x"': {}},
        "f:replicas": {},
    },
}


def test_a_document_is_read_into_paths_and_written_back() -> None:
    fields = field_sets.decode(FIELDS_V1)
    assert fields == {
        ("f:metadata", "f:labels"),
        ("f:metadata", "f:labels", "f:app"),
        ("f:spec", "f:containers", 'k:{"name":"a"}'),
        ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"),
        ("f:spec", "f:finalizers", 'v:"x"'),
        ("f:spec", "f:replicas"),
    }
    assert field_sets.encode(fields) == FIELDS_V1
    assert field_sets.decode(None) == frozenset()


def test_a_path_is_shown_as_messages_show_it() -> None:
    keyed = field_sets.key_element({"protocol": "TCP", "containerPort": 80})
    assert (
        field_sets.show_path(("f:spec", "f:ports", keyed, "f:name"))
        == '.spec.ports[containerPort=80,protocol="TCP"].name'
    )
    assert field_sets.show_path(("f:finalizers", field_sets.value_element("x"))) == '.finalizers[="x"]'
    assert field_sets.show_path(("f:list", "i:3")) == ".list[3]"


def test_what_the_server_says_is_owned_by_nobody() -> None:
    fields = {("f:kind",), ("f:metadata",), ("f:metadata", "f:uid"), ("f:metadata", "f:labels"), ("f:spec",)}
    assert field_sets.drop_unowned(fields) == {("f:metadata", "f:labels"), ("f:spec",)}


_elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', "v:1", "i:0"])
_sets = st.frozensets(st.lists(_elements, min_size=1, max_size=4).map(tuple), max_size=8)


@given(_sets)
def test_any_set_survives_being_written_and_read(fields: FieldSet) -> None:
    assert field_sets.decode(field_sets.encode(fields)) == fields

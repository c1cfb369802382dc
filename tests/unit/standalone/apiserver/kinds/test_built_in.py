"""The rows of built-in kinds: each is whole and found, and adding one leaves no table behind."""

from __future__ import annotations

from importlib import import_module

import pytest

from kvedge.standalone.apiserver.kinds.built_in import (
    BUILT_IN,
    MESSAGES,
    apply_built_in_defaults,
    find_built_in,
    initial_status,
)
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import type_of_kind
from kvedge.standalone.apiserver.wire.protobuf_body import MessageType

STORED = [kind for kind in BUILT_IN if "list" in kind.verbs]


def test_no_two_rows_serve_the_same() -> None:
    assert len({(kind.group, kind.version, kind.plural) for kind in BUILT_IN}) == len(BUILT_IN)
    assert len({(kind.api_version, kind.kind) for kind in BUILT_IN}) == len(BUILT_IN)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.qualified)
def test_a_stored_kind_has_a_schema_and_is_found_by_its_resource(kind: BuiltinKind) -> None:
    assert type_of_kind(kind.group, kind.kind) is not None
    found = find_built_in(kind.storage)
    assert found is not None
    assert found.storage == kind.storage
    assert kind.columns[0].name in ("Name", "Last Seen")


@pytest.mark.parametrize(("named", "message"), MESSAGES.items(), ids=lambda value: str(value))
def test_a_message_that_a_row_names_has_the_fields_of_its_schema(named: tuple[str, str], message: MessageType) -> None:
    module = import_module(f"kvedge.rpc.{message.module}")
    fields = {field.name for field in getattr(module, message.name or named[1]).DESCRIPTOR.fields}
    schema = type_of_kind(named[0].rpartition("/")[0], named[1])
    if schema is None:
        assert fields
        return
    wanted = {field.name for field in schema.fields} - {"apiVersion", "kind"}
    assert wanted <= fields | {"inline_metadata"}, wanted - fields


def test_a_custom_kind_has_no_row_and_nothing_is_filled_in() -> None:
    obj = {"metadata": {"name": "a"}, "spec": {}}
    apply_built_in_defaults("widgets.example.com", obj)
    assert obj == {"metadata": {"name": "a"}, "spec": {}}
    assert find_built_in("widgets.example.com") is None
    assert initial_status("widgets.example.com", obj) is None


def test_what_a_new_object_starts_with_comes_from_its_row() -> None:
    assert initial_status("namespaces", {}) == {"phase": "Active"}
    assert initial_status("pods", {"spec": {"containers": []}}) == {"phase": "Pending", "qosClass": "BestEffort"}
    assert initial_status("configmaps", {}) is None

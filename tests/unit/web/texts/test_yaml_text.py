"""Manifests as pages send them."""

from __future__ import annotations

import pytest

from kvedge.client.errors import FlagError
from kvedge.web.texts.yaml_text import LONGEST, check_object, read_yaml, write_yaml


def test_what_is_written_is_read_back_without_what_servers_note() -> None:
    labels = {"a": "b"}
    document = {
        "kind": "VirtualMachine",
        "metadata": {"name": "web", "labels": labels, "managedFields": [1]},
        "x": labels,
    }
    text = write_yaml(document)
    assert "&" not in text
    assert read_yaml(text) == {"kind": "VirtualMachine", "metadata": {"name": "web", "labels": labels}, "x": labels}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "line 1"),
        ("a: &x [1]\nb: *x\n", "line 2: aliases"),
        ("- a", "is no object"),
        ("", "is no object"),
        ("[" * 100_000, "not YAML"),
        ("a: !!python/object:os.system x", "constructor"),
        ("x" * (LONGEST + 1), "longer than 256 KiB"),
        ("a: !!bool foo", "not YAML"),
        ("a: !!timestamp foo", "not YAML"),
        ("a: !!int ''", "not YAML"),
        ("null: 1", "keys must be texts"),
        ("a: {true: 1}", "keys must be texts"),
        ('a: "\\ud800"', "whole characters"),
    ],
    ids=[
        *("open", "an alias", "a list", "nothing", "deep", "a tag", "long", "no bool", "no moment", "no number"),
        *("no key", "a bool as a key", "half a character"),
    ],
)
def test_what_is_no_plain_object_is_refused(text: str, why: str) -> None:
    with pytest.raises(FlagError) as refused:
        read_yaml(text)
    assert why in refused.value.why


@pytest.mark.parametrize(
    ("metadata", "kind", "why"),
    [
        ({"name": "web"}, "Pod", "kind: must be VirtualMachine"),
        ({}, "VirtualMachine", "needs a name"),
        ({"name": "web", "namespace": "other"}, "VirtualMachine", "must be shop"),
        ({"name": "db"}, "VirtualMachine", "must stay web"),
    ],
)
def test_an_object_is_of_the_kind_and_place_that_were_chosen(metadata: object, kind: str, why: str) -> None:
    with pytest.raises(FlagError, match=why):
        check_object({"kind": kind, "metadata": metadata}, "VirtualMachine", "shop", "web")


def test_an_object_without_a_namespace_gets_the_chosen_one() -> None:
    checked = check_object({"kind": "Pod", "metadata": {"name": "web"}}, "Pod", "shop")
    assert checked["metadata"] == {"name": "web", "namespace": "shop"}

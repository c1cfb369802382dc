"""Lists: selectors, pages that fit together, and the state of a revision."""

from __future__ import annotations

import pytest

from tests.contract.apiserver.conftest import new_namespace
from tests.support.api_client import TABLE, ApiClient, names
from tests.support.widgets import config_map, config_maps, pod, pods, widget, widgets

pytestmark = pytest.mark.contract


@pytest.fixture
def five(admin: ApiClient, namespace: str) -> str:
    """A namespace with the ConfigMaps a to e, of which b and d have the label even=yes."""
    for name in "abcde":
        labels = {"even": "yes"} if name in "bd" else {"name": name}
        admin.made(config_maps(namespace), config_map(name, labels=labels))
    return namespace


def test_a_list_has_a_kind_and_a_revision_and_is_in_order(admin: ApiClient, five: str) -> None:
    answer = admin.get(config_maps(five))
    assert answer.json["kind"] == "ConfigMapList"
    assert answer.json["apiVersion"] == "v1"
    assert int(answer.json["metadata"]["resourceVersion"]) > 0
    assert names(answer) == ["a", "b", "c", "d", "e"]


def test_a_list_of_all_namespaces_sees_each(admin: ApiClient, five: str) -> None:
    other = new_namespace(admin)
    admin.made(config_maps(other), config_map("a"))
    items = admin.get("/api/v1/configmaps").json["items"]
    assert {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items} >= {(five, "a"), (other, "a")}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("even=yes", ["b", "d"]),
        ("even!=yes", ["a", "c", "e"]),
        ("!even", ["a", "c", "e"]),
        ("name in (a, c),!even", ["a", "c"]),
        ("name notin (a,c)", ["b", "d", "e"]),
    ],
)
def test_labels_select(admin: ApiClient, five: str, selector: str, expected: list[str]) -> None:
    assert names(admin.get(config_maps(five), labelSelector=selector)) == expected


def test_fields_select(admin: ApiClient, five: str) -> None:
    assert names(admin.get(config_maps(five), fieldSelector="metadata.name=c")) == ["c"]
    assert names(admin.get(config_maps(five), fieldSelector="metadata.name!=c")) == ["a", "b", "d", "e"]
    admin.made(pods(five), pod("one", nodeName="n1"))
    admin.made(pods(five), pod("two"))
    assert names(admin.get(pods(five), fieldSelector="spec.nodeName=n1")) == ["one"]
    assert names(admin.get(pods(five), fieldSelector="spec.nodeName=,status.phase=Pending")) == ["two"]


def test_selectors_that_make_no_sense_are_bad_requests(admin: ApiClient, five: str) -> None:
    assert admin.get(config_maps(five), labelSelector="a in").status == 400
    answer = admin.get(config_maps(five), fieldSelector="data.key=x")
    assert answer.status == 400
    assert "data.key" in answer.message


def test_pages_make_up_the_list_as_it_was_at_the_first(admin: ApiClient, five: str) -> None:
    first = admin.get(config_maps(five), limit="2")
    assert names(first) == ["a", "b"]
    assert first.json["metadata"]["remainingItemCount"] == 3
    admin.delete(config_maps(five, "c"))
    admin.made(config_maps(five), config_map("bb"))
    admin.patch(config_maps(five, "d"), {"data": {"new": "yes"}})
    second = admin.get(config_maps(five), limit="2", **{"continue": first.json["metadata"]["continue"]})
    assert names(second) == ["c", "d"]
    assert not second.json["items"][1].get("data")
    third = admin.get(config_maps(five), limit="2", **{"continue": second.json["metadata"]["continue"]})
    assert names(third) == ["e"]
    assert "continue" not in third.json["metadata"]
    revisions = {page.json["metadata"]["resourceVersion"] for page in (first, second, third)}
    assert len(revisions) == 1
    assert names(admin.get(config_maps(five))) == ["a", "b", "bb", "d", "e"]


def test_pages_of_a_selection_do_not_say_how_many_are_left(admin: ApiClient, five: str) -> None:
    page = admin.get(config_maps(five), limit="1", labelSelector="even=yes").json
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


def test_a_continue_token_that_is_none_is_a_bad_request(admin: ApiClient, five: str) -> None:
    assert admin.get(config_maps(five), limit="2", **{"continue": "nonsense"}).status == 400


def test_the_state_at_a_revision_can_be_listed(admin: ApiClient, five: str) -> None:
    revision = admin.get(config_maps(five)).json["metadata"]["resourceVersion"]
    admin.delete(config_maps(five, "a"))
    exact = admin.get(config_maps(five), resourceVersion=revision, resourceVersionMatch="Exact")
    assert names(exact) == ["a", "b", "c", "d", "e"]
    assert exact.json["metadata"]["resourceVersion"] == revision
    newer = admin.get(config_maps(five), resourceVersion=revision, resourceVersionMatch="NotOlderThan")
    assert int(newer.json["metadata"]["resourceVersion"]) >= int(revision)


def test_any_state_will_do_for_revision_zero(admin: ApiClient, five: str) -> None:
    assert admin.get(config_maps(five), resourceVersion="0").status == 200


def test_list_options_that_contradict_each_other_are_refused(admin: ApiClient, five: str) -> None:
    assert admin.get(config_maps(five), resourceVersionMatch="Exact").status == 422
    assert admin.get(config_maps(five), resourceVersion="0", resourceVersionMatch="Exact").status == 422
    assert admin.get(config_maps(five), resourceVersion="1", resourceVersionMatch="Sometimes").status == 422
    assert admin.get(config_maps(five), resourceVersion="x").status in (400, 422)


def test_a_revision_of_the_future_is_too_large(admin: ApiClient, five: str) -> None:
    answer = admin.get(config_maps(five), resourceVersion="999999999", resourceVersionMatch="NotOlderThan")
    assert answer.status == 504
    assert answer.causes[0]["reason"] == "ResourceVersionTooLarge"


def test_a_table_has_the_columns_of_the_crd(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 3))
    admin.patch(widgets(namespace, "a") + "/status", {"status": {"phase": "Up"}})
    table = admin.get(widgets(namespace), accept=f"{TABLE},application/json").json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Size", 0), ("Phase", 0), ("Color", 1)]
    assert table["rows"][0]["cells"] == ["a", 3, "Up", "red"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert table["rows"][0]["object"]["metadata"]["name"] == "a"
    whole = admin.get(widgets(namespace, "a"), accept=TABLE, includeObject="Object").json
    assert whole["rows"][0]["object"]["spec"]["size"] == 3


def test_a_table_comes_in_the_version_that_an_old_client_names(admin: ApiClient, namespace: str) -> None:
    admin.made(widgets(namespace), widget("a", 3))
    old = TABLE.replace("v=v1", "v=v1beta1")
    for path in (widgets(namespace), widgets(namespace, "a")):
        table = admin.get(path, accept=f"{old}, application/json").json
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1beta1")
        assert table["rows"][0]["cells"][:2] == ["a", 3]


def test_a_table_of_pods_has_the_known_columns(admin: ApiClient, namespace: str) -> None:
    admin.made(pods(namespace), pod("p", nodeName="n1"))
    table = admin.get(pods(namespace), accept=TABLE).json
    named = {
        column["name"]: cell for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
    }
    assert named["Name"] == "p"
    assert named["Ready"] == "0/1"
    assert named["Status"] == "Pending"
    assert named["Node"] == "n1"


def test_metadata_alone_can_be_asked_for(admin: ApiClient, five: str) -> None:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    found = admin.get(config_maps(five), accept=accept).json
    assert found["kind"] == "PartialObjectMetadataList"
    assert [item["kind"] for item in found["items"]] == ["PartialObjectMetadata"] * 5
    assert set(found["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_a_form_that_nobody_can_make_is_not_acceptable(admin: ApiClient, five: str) -> None:
    assert admin.get(config_maps(five), accept="text/html").status == 406

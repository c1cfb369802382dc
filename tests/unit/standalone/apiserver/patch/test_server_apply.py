"""Server-side apply: merging, ownership, conflicts, removal; and what plain writes own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind
from kvedge.standalone.apiserver.patch.server_apply import LAST_APPLIED, Writer, apply, merge_schema, track_update
from kvedge.standalone.apiserver.schema import field_sets, managed_fields, typed_fields
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, ManagerConflict
from kvedge.standalone.apiserver.wire.json_values import clone, same

NOW = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
_POD = KindIndex(BUILT_IN).of("v1", "Pod")
assert _POD is not None
POD = merge_schema(_POD)
Object = dict[str, Any]


def pod(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}


def labelled(**labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n", "labels": labels}}


def applied(live: Object | None, obj: Object, manager: str = "a", now: datetime = NOW, force: bool = False) -> Object:
    return apply(live, obj, Writer(manager, "v1", has_status=True), POD, now, force)


def updated(live: Object | None, obj: Object, manager: str = "u", now: datetime = NOW, subresource: str = "") -> Object:
    return track_update(live, obj, Writer(manager, "v1", subresource, has_status=True), POD, now)


def owners(obj: Object) -> dict[tuple[str, str], Object]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])
    }


A = {"name": "a", "image": "a:1"}
B = {"name": "b", "image": "b:1"}


def test_applying_to_nothing_creates_and_owns_exactly_what_was_applied() -> None:
    created = applied(None, pod(containers=[A], nodeName="box"))
    assert created["spec"] == {"containers": [A], "nodeName": "box"}
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-02-03T12:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}},
                    "f:nodeName": {},
                }
            },
        }
    ]


def test_another_manager_adds_its_own_fields() -> None:
    live = applied(None, pod(containers=[A]))
    both = applied(live, {**labelled(app="web"), "spec": {"containers": [B]}}, "b")
    assert [item["name"] for item in both["spec"]["containers"]] == ["a", "b"]
    assert both["metadata"]["labels"] == {"app": "web"}
    assert set(owners(both)) == {("a", "Apply"), ("b", "Apply")}


def test_applying_the_same_value_shares_it_and_another_one_conflicts() -> None:
    live = applied(None, pod(nodeName="box"))
    shared = applied(live, pod(nodeName="box"), "b")
    assert owners(shared)["a", "Apply"] == owners(shared)["b", "Apply"]
    with pytest.raises(ManagerConflict) as refused:
        applied(live, pod(nodeName="other"), "b")
    assert refused.value.message == 'Apply failed with 1 conflict: conflict with "a": .spec.nodeName'
    assert refused.value.causes == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.nodeName"}
    ]
    assert refused.value.status()["code"] == 409


def test_force_takes_the_field_over() -> None:
    live = applied(None, pod(nodeName="box", hostname="h"))
    taken = applied(live, pod(nodeName="other"), "b", force=True)
    assert taken["spec"] == {"nodeName": "other", "hostname": "h"}
    assert owners(taken) == {
        ("a", "Apply"): {"f:spec": {"f:hostname": {}}},
        ("b", "Apply"): {"f:spec": {"f:nodeName": {}}},
    }


def test_conflicts_with_several_managers_are_listed_by_manager() -> None:
    live = updated(None, pod(containers=[A]), "kubectl-client-side-apply")
    live = applied(live, pod(hostname="h"), "z")
    changed = {"name": "a", "image": "a:2"}
    with pytest.raises(ManagerConflict) as refused:
        applied(live, pod(containers=[changed], hostname="other"), "b")
    assert refused.value.message == (
        "Apply failed with 2 conflicts: "
        'conflicts with "kubectl-client-side-apply" using v1:\n- .spec.containers[name="a"].image\n'
        'conflicts with "z":\n- .spec.hostname'
    )


def test_what_a_manager_no_longer_applies_is_removed_unless_somebody_else_owns_it() -> None:
    live = applied(None, pod(containers=[A, B], nodeName="box", hostname="h"))
    live = applied(live, pod(hostname="h"), "other")
    live = updated(live, {**live, "spec": {**live["spec"], "priority": 3}})
    less = applied(live, pod(containers=[A]), now=LATER)
    assert less["spec"] == {"containers": [A], "hostname": "h", "priority": 3}
    assert owners(less)["a", "Apply"] == {
        "f:spec": {"f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}}}
    }


def test_a_label_that_is_no_longer_applied_goes_and_the_others_stay() -> None:
    live = applied(None, labelled(a="1", b="2"))
    live = applied(live, labelled(c="3"), "other")
    assert applied(live, labelled(a="1"))["metadata"]["labels"] == {"a": "1", "c": "3"}
    assert "labels" not in applied(applied(None, labelled(a="1")), pod())["metadata"]


def test_a_field_of_an_item_that_another_manager_set_stays_with_the_item() -> None:
    live = applied(None, pod(containers=[A]))
    live = applied(live, pod(containers=[{"name": "a", "tty": True}]), "other")
    gone = applied(live, pod())
    assert gone["spec"]["containers"] == [{"name": "a", "tty": True}]


def test_a_map_that_is_still_applied_stays_when_it_is_emptied() -> None:
    live = applied(None, pod(securityContext={"runAsUser": 107}))
    emptied = applied(live, pod(securityContext={}))
    assert emptied["spec"] == {"securityContext": {}}
    assert same(applied(emptied, pod(securityContext={}), now=LATER), emptied)


def test_atomic_lists_and_maps_are_owned_and_replaced_whole() -> None:
    live = applied(None, pod(tolerations=[{"key": "a"}], nodeSelector={"x": "1"}))
    assert owners(live)["a", "Apply"] == {"f:spec": {"f:tolerations": {}, "f:nodeSelector": {}}}
    with pytest.raises(ManagerConflict, match=r"\.spec\.nodeSelector"):
        applied(live, pod(nodeSelector={"y": "2"}), "b")
    assert applied(live, pod(tolerations=[{"key": "b"}], nodeSelector={"y": "2"}))["spec"] == {
        "tolerations": [{"key": "b"}],
        "nodeSelector": {"y": "2"},
    }


def test_sets_are_owned_by_value() -> None:
    live = applied(None, {**pod(), "metadata": {"name": "p", "namespace": "n", "finalizers": ["a.b/c"]}})
    more = applied(live, {**pod(), "metadata": {"name": "p", "namespace": "n", "finalizers": ["d.e/f"]}}, "b")
    assert more["metadata"]["finalizers"] == ["a.b/c", "d.e/f"]
    assert owners(more)["b", "Apply"]["f:metadata"] == {"f:finalizers": {'v:"d.e/f"': {}}}
    fewer = applied(more, pod())
    assert fewer["metadata"]["finalizers"] == ["d.e/f"]


def test_ports_are_told_apart_by_number_and_protocol_with_its_default() -> None:
    live = applied(None, pod(containers=[{"name": "a", "ports": [{"containerPort": 53}]}]))
    both = applied(live, pod(containers=[{"name": "a", "ports": [{"containerPort": 53, "protocol": "UDP"}]}]), "b")
    assert both["spec"]["containers"][0]["ports"] == [{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]
    ports = owners(both)["a", "Apply"]["f:spec"]["f:containers"]['k:{"name":"a"}']["f:ports"]
    assert list(ports) == ['k:{"containerPort":53,"protocol":"TCP"}']


def test_the_applied_order_wins_and_items_of_others_stay_near_their_place() -> None:
    live = updated(None, pod(containers=[{"name": name} for name in ("a", "s", "b")]))
    result = applied(live, pod(containers=[{"name": "b"}, {"name": "a"}]))
    assert [item["name"] for item in result["spec"]["containers"]] == ["s", "b", "a"]
    result = applied(live, pod(containers=[{"name": "a"}, {"name": "n"}, {"name": "b"}]))
    assert [item["name"] for item in result["spec"]["containers"]] == ["a", "s", "n", "b"]


def test_of_an_element_that_a_live_list_has_twice_the_first_place_counts() -> None:
    assert typed_fields._merge_order(["a", "b", "a", "c"], ["a", "d"]) == ["a", "b", "d", "c"]


def test_applying_again_changes_neither_object_nor_times() -> None:
    live = applied(None, pod(containers=[A], nodeName="box"))
    assert applied(live, pod(containers=[A], nodeName="box"), now=LATER) == live


def test_the_status_is_not_applied_through_the_main_resource_and_nothing_else_through_status() -> None:
    live = applied(None, {**pod(nodeName="box"), "status": {"phase": "Running"}})
    assert "status" not in live
    writer = Writer("s", "v1", "status", has_status=True)
    result = apply(live, {**pod(nodeName="other"), "status": {"phase": "Running"}}, writer, POD, NOW)
    assert result["spec"] == {"nodeName": "box"}
    assert result["status"] == {"phase": "Running"}
    entry = result["metadata"]["managedFields"][-1]
    assert (entry["manager"], entry["subresource"], entry["fieldsV1"]) == ("s", "status", {"f:status": {"f:phase": {}}})


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        pytest.param(
            {**pod(), "metadata": {"name": "p", "managedFields": []}},
            "metadata.managedFields must be nil",
            id="managed fields",
        ),
        pytest.param(pod(containers=[{"image": "x"}]), 'omits all key fields ["name"]', id="no key"),
        pytest.param(pod(containers=[A, A]), 'duplicate entries for key [name="a"]', id="a key twice"),
    ],
)
def test_what_cannot_be_applied_is_a_bad_request(obj: Object, why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        applied(None, obj)
    assert why in refused.value.message


def test_kubectl_takes_over_what_it_applied_from_the_client_side() -> None:
    old = pod(nodeName="box")
    annotated = {**old, "metadata": {**old["metadata"], "annotations": {LAST_APPLIED: json.dumps(old)}}}
    live = updated(None, annotated, "kubectl-client-side-apply")
    result = applied(live, pod(nodeName="other"), "kubectl")
    assert result["spec"]["nodeName"] == "other"
    assert json.loads(result["metadata"]["annotations"][LAST_APPLIED])["spec"] == {"nodeName": "other"}
    with pytest.raises(ManagerConflict):
        applied(live, pod(nodeName="other"), "somebody")


def test_a_create_owns_everything_that_it_set() -> None:
    created = updated(None, pod(containers=[A], nodeName="box"))
    assert owners(created) == {
        ("u", "Update"): {
            "f:spec": {
                ".": {},
                "f:containers": {".": {}, 'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}},
                "f:nodeName": {},
            }
        }
    }


def test_an_update_takes_what_it_changes_from_whoever_had_it() -> None:
    live = applied(None, pod(nodeName="box", hostname="h"))
    result = updated(live, {**live, "spec": {"nodeName": "other", "hostname": "h"}}, now=LATER)
    assert owners(result) == {
        ("a", "Apply"): {"f:spec": {"f:hostname": {}}},
        ("u", "Update"): {"f:spec": {"f:nodeName": {}}},
    }
    assert [entry["time"] for entry in result["metadata"]["managedFields"]] == [
        "2026-02-03T12:00:00Z",
        "2026-02-03T12:01:00Z",
    ]


def test_an_update_that_removes_a_field_takes_it_from_everybody() -> None:
    live = applied(applied(None, pod(nodeName="box")), pod(nodeName="box"), "b")
    assert "managedFields" not in updated(live, {**live, "spec": {}})["metadata"]


def test_an_update_that_changes_nothing_keeps_every_entry_and_time() -> None:
    live = updated(applied(None, pod(nodeName="box")), pod(nodeName="box", hostname="h"))
    assert updated(live, clone(live), "another", LATER) == live


def test_a_writer_that_sends_no_managed_fields_does_not_lose_them_and_an_empty_list_clears_them() -> None:
    live = applied(None, pod(nodeName="box"))
    plain = clone(live)
    del plain["metadata"]["managedFields"]
    assert updated(live, plain) == live
    plain["metadata"]["managedFields"] = []
    assert "managedFields" not in updated(live, plain)["metadata"]


def test_a_write_of_the_status_is_an_entry_of_its_own() -> None:
    live = updated(None, pod(nodeName="box"))
    result = updated(live, {**live, "status": {"phase": "Running"}}, "u", LATER, "status")
    assert [entry.get("subresource") for entry in result["metadata"]["managedFields"]] == [None, "status"]
    assert result["metadata"]["managedFields"][1]["fieldsV1"] == {"f:status": {".": {}, "f:phase": {}}}


def test_many_managers_of_updates_are_united_into_one() -> None:
    live = updated(None, pod(nodeName="0"))
    for count in range(1, 15):
        spec = {**live["spec"], "nodeSelector": {"a": "b"}, "hostname": f"h{count}", f"field{count}": "x"}
        live = updated(live, {**live, "spec": spec}, f"m{count}", NOW + timedelta(minutes=count))
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert len(names) == managed_fields.MAX_UPDATE_MANAGERS
    assert "ancient-changes" in names
    everything = frozenset().union(
        *(entry.fields for entry in managed_fields.decode(live["metadata"]["managedFields"]))
    )
    assert {("f:spec", f"f:field{count}") for count in range(1, 15)} <= everything


def test_entries_that_make_no_sense_do_not_refuse_a_write() -> None:
    broken = pod(nodeName="box")
    broken["metadata"]["managedFields"] = [{"manager": "x", "operation": "Guess", "fieldsType": "FieldsV1"}]
    assert set(owners(updated(broken, {**broken, "spec": {"nodeName": "other"}}))) == {("u", "Update")}


def custom(schema: Object) -> Object:
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return merge_schema(ServedKind("e.x", "v1", "Box", "boxes", crd={}, crd_version=version))


def test_a_custom_kind_is_merged_as_its_schema_says() -> None:
    disks = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    spec = {"type": "object", "properties": {"disks": disks, "tags": {"type": "array", "items": {"type": "string"}}}}
    schema = custom({"type": "object", "properties": {"spec": spec, "metadata": {"type": "object"}}})
    one = {
        "metadata": {"name": "b", "labels": {"a": "1"}},
        "spec": {"disks": [{"name": "x", "size": 1}], "tags": ["t"]},
    }
    live = apply(None, one, Writer("a", "e.x/v1"), schema, NOW)
    both = apply(
        live,
        {"metadata": {"name": "b", "labels": {"b": "2"}}, "spec": {"disks": [{"name": "y"}]}},
        Writer("b", "e.x/v1"),
        schema,
        NOW,
    )
    assert both["spec"] == {"disks": [{"name": "x", "size": 1}, {"name": "y"}], "tags": ["t"]}
    assert both["metadata"]["labels"] == {"a": "1", "b": "2"}
    with pytest.raises(ManagerConflict, match=r"\.spec\.tags"):
        apply(live, {"metadata": {"name": "b"}, "spec": {"tags": ["t", "u"]}}, Writer("b", "e.x/v1"), schema, NOW)


def test_a_kind_without_a_schema_merges_maps_and_replaces_lists() -> None:
    schema = custom({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    live = apply(
        None, {"metadata": {"name": "b"}, "data": {"a": [1], "b": {"c": 1}}}, Writer("a", "e.x/v1"), schema, NOW
    )
    both = apply(live, {"metadata": {"name": "b"}, "data": {"b": {"d": 2}}}, Writer("b", "e.x/v1"), schema, NOW)
    assert both["data"] == {"a": [1], "b": {"c": 1, "d": 2}}


_names = st.sampled_from("abc")
_env = st.lists(
    st.fixed_dictionaries({"name": _names}, optional={"value": _names}), unique_by=lambda item: item["name"], max_size=3
)
_specs = st.fixed_dictionaries(
    {},
    optional={
        "nodeName": _names,
        "nodeSelector": st.dictionaries(_names, _names, max_size=2),
        "tolerations": st.lists(st.fixed_dictionaries({"key": _names}), max_size=2),
        "securityContext": st.fixed_dictionaries(
            {}, optional={"runAsUser": st.integers(0, 2), "fsGroup": st.integers(0, 2)}
        ),
        "containers": st.lists(
            st.fixed_dictionaries({"name": _names}, optional={"image": _names, "env": _env}),
            unique_by=lambda item: item["name"],
            max_size=3,
        ),
    },
)
_pods = st.builds(
    lambda spec, labels: {**labelled(**labels), "spec": spec}, _specs, st.dictionaries(_names, _names, max_size=2)
)
_writes = st.lists(st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from(["x", "y"]), _pods), max_size=4)


def after(writes: list[tuple[str, str, Object]]) -> Object | None:
    live: Object | None = None
    for word, manager, obj in writes:
        live = applied(live, obj, manager, force=True) if word == "apply" else updated(live, obj, manager)
    return live


@given(_writes, _pods)
def test_applying_twice_is_applying_once_whatever_came_before(
    writes: list[tuple[str, str, Object]], obj: Object
) -> None:
    live = after(writes)
    kept = clone(live)
    once = applied(live, obj, force=True)
    assert same(live, kept)
    assert same(applied(once, obj, now=LATER), once)


@given(_writes, _pods)
def test_an_applied_value_is_in_the_object_and_its_manager_owns_it(
    writes: list[tuple[str, str, Object]], obj: Object
) -> None:
    result = applied(after(writes), obj, force=True)
    for key, value in obj["metadata"]["labels"].items():
        assert result["metadata"]["labels"][key] == value
    for key in ("nodeName", "nodeSelector", "tolerations"):
        if key in obj["spec"]:
            assert result["spec"][key] == obj["spec"][key]
            assert ("f:spec", f"f:{key}") in field_sets.decode(owners(result)["a", "Apply"])


@given(_writes, _pods)
def test_a_manager_that_applies_nothing_more_leaves_what_others_own(
    writes: list[tuple[str, str, Object]], obj: Object
) -> None:
    before = after(writes)
    with_ours = applied(before, obj, force=True)
    others = {key: fields for key, fields in owners(with_ours).items() if key != ("a", "Apply")}
    left = applied(with_ours, labelled())
    assert {key: fields for key, fields in owners(left).items() if key != ("a", "Apply")} == others


@given(_writes)
def test_no_two_appliers_own_a_field_with_different_values_and_every_owned_leaf_exists(
    writes: list[tuple[str, str, Object]],
) -> None:
    live = after(writes)
    if live is None:
        return
    present = frozenset(field_sets.decode(owners(updated(None, live)).get(("u", "Update"))))
    for entry in managed_fields.decode(live["metadata"].get("managedFields")):
        assert entry.fields <= present

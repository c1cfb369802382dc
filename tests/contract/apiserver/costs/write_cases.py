"""What writes cost: validators of each kind with their error texts, warnings, patches, and server-side apply."""

from __future__ import annotations

from typing import Any, Final

from tests.contract.apiserver.costs.requests import (
    CONFIG_MAPS,
    CORE,
    PODS,
    RBAC,
    SECRETS,
    SERVICES,
    VMS,
    WIDGETS,
    Case,
    Request,
    applied,
    config_map,
    create,
    many,
    named,
    parts,
    patch,
    pod,
    steps,
    strategic,
    vm,
    widget,
)

There = tuple[str, Any]
_LONG: Final = "x" * 300


def _owner(number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "K", "name": f"o{number}", "uid": f"u{number}", "controller": True}


def _entry(number: int) -> dict[str, Any]:
    fields = {"f:data": {f"f:k{number}": {}}}
    return {
        "manager": f"m{number}",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _event(**fields: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "a", "namespace": "budget"}
    return {
        "metadata": {"name": "a"},
        "involvedObject": about,
        "reason": "R",
        "message": "m",
        "type": "Normal",
        **fields,
    }


METADATA: Final = [
    Case(
        "owners that are all controllers",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(ownerReferences=many(n, _owner))),
        1_000,
    ),
    Case(
        "owners of a widget that are all controllers",
        "edit",
        lambda n: create(WIDGETS, widget(ownerReferences=many(n, _owner))),
        1_000,
    ),
    Case(
        "owners without anything",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(ownerReferences=many(n, lambda _: {}))),
        4_000,
    ),
    Case(
        "owners that are events",
        "edit",
        lambda n: create(
            CONFIG_MAPS,
            config_map(ownerReferences=many(n, lambda _: {"apiVersion": "v1", "kind": "Event", "name": _LONG})),
        ),
        1_000,
    ),
    Case(
        "labels that are none",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(labels=named(n, lambda _: "-" * 64, "a/b/c"))),
        2_000,
    ),
    Case("one label of a long key", "edit", lambda n: create(CONFIG_MAPS, config_map(labels={"-" * n: "a"})), 100_000),
    Case(
        "one label of a long value",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(labels={"a": "a" * n + "-"})),
        100_000,
    ),
    Case(
        "annotations that are none",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(annotations=named(n, str, "a/b/c"))),
        4_000,
    ),
    Case("annotations", "edit", lambda n: create(CONFIG_MAPS, config_map(annotations=named(n, str))), 4_000),
    Case(
        "finalizers that are none",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(finalizers=many(n, lambda i: f"-{i}-"))),
        2_000,
    ),
    Case("a long name", "edit", lambda n: create(CONFIG_MAPS, config_map("a." * n)), 50_000),
    Case(
        "fields' managers that are none",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(managedFields=many(n, lambda i: {"operation": f"o{i}"}))),
        4_000,
    ),
    Case("fields' managers", "edit", lambda n: create(CONFIG_MAPS, config_map(managedFields=many(n, _entry))), 500),
    Case(
        "a manager of many fields",
        "edit",
        lambda n: create(
            CONFIG_MAPS, config_map(managedFields=[{**_entry(0), "fieldsV1": {"f:data": named(n, lambda _: {}, "f:")}}])
        ),
        4_000,
    ),
    Case("metadata that is no text", "edit", lambda n: create(WIDGETS, widget(labels=named(n, int))), 8_000),
]

SCHEMA: Final = [
    Case(
        "parts of one name",
        "edit",
        lambda n: create(WIDGETS, widget(spec={"parts": many(n, lambda i: {"name": f"p{i // 2}"})})),
        2_000,
    ),
    Case(
        "parts without a name", "edit", lambda n: create(WIDGETS, widget(spec={"parts": many(n, lambda _: {})})), 4_000
    ),
    Case(
        "parts of wrong types",
        "edit",
        lambda n: create(WIDGETS, widget(spec={"parts": many(n, lambda _: {"name": 1, "weight": "x"})})),
        2_000,
    ),
    Case(
        "parts that are texts",
        "edit",
        lambda n: create(WIDGETS, widget(spec={"parts": many(n, lambda _: _LONG)})),
        2_000,
    ),
    Case("a color that is none", "edit", lambda n: create(WIDGETS, widget(spec={"color": "x" * n})), 200_000),
    Case("a size that is a list", "edit", lambda n: create(WIDGETS, widget(spec={"size": many(n, int)})), 20_000),
    Case("parts", "edit", lambda n: create(WIDGETS, widget(spec={"parts": parts(n)})), 1_000),
    Case(
        "what is not looked into",
        "edit",
        lambda n: create(WIDGETS, widget(spec={"free": named(n, lambda _: {})})),
        4_000,
    ),
    Case(
        "what is not looked into, deep",
        "edit",
        lambda n: create(WIDGETS, widget(spec={"free": _deep(60, named(n, int))})),
        1_000,
    ),
    Case(
        "deep and wide", "edit", lambda n: create(WIDGETS, widget(spec={"free": named(n, lambda _: _deep(60, 1))})), 40
    ),
]


def _deep(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


WARNINGS: Final = [
    Case("unknown metadata of a widget", "edit", lambda n: create(WIDGETS, widget(**named(n, str, "x"))), 4_000),
    Case("unknown metadata", "edit", lambda n: create(CONFIG_MAPS, config_map(**named(n, str, "x"))), 4_000),
    Case("unknown fields", "edit", lambda n: create(WIDGETS, widget(spec=named(n, int, "x"))), 8_000),
    Case(
        "unknown fields, refused",
        "edit",
        lambda n: create(WIDGETS, widget(spec=named(n, int, "x")), fieldValidation="Strict"),
        8_000,
    ),
    Case(
        "unknown fields below a long key",
        "edit",
        lambda n: create(
            WIDGETS,
            {
                **widget(),
                "metadata": {"name": "a"},
                "status": {},
                "spec": {"size": 1, "parts": [named(n, int, "x" * 40)]},
            },
        ),
        2_000,
    ),
    Case(
        "unknown fields of a Pod",
        "edit",
        lambda n: create(PODS, pod(containers=many(n, lambda i: {f"x{i}": 1}))),
        2_000,
    ),
    Case("unknown fields of a VM", "edit", lambda n: create(VMS, vm(template=named(n, int, "x"))), 4_000),
    Case("a VM's annotations", "edit", lambda n: create(VMS, vm(annotations=named(n, str))), 4_000),
]

KINDS: Final = [
    Case("data of a ConfigMap", "edit", lambda n: create(CONFIG_MAPS, config_map(data=named(n, str))), 4_000),
    Case(
        "keys of a ConfigMap that are none",
        "edit",
        lambda n: create(CONFIG_MAPS, config_map(data=named(n, str, "a b"))),
        4_000,
    ),
    Case(
        "one long key of a ConfigMap", "edit", lambda n: create(CONFIG_MAPS, config_map(data={" " * n: "a"})), 200_000
    ),
    Case(
        "keys of a Secret that are none",
        "edit",
        lambda n: create(SECRETS, {"metadata": {"name": "a"}, "data": named(n, lambda _: "QUFB", "a b")}),
        4_000,
    ),
    Case(
        "a type of a Secret that is long",
        "edit",
        lambda n: create(SECRETS, {"metadata": {"name": "a"}, "type": "x" * n}),
        200_000,
    ),
    Case("containers without anything", "edit", lambda n: create(PODS, pod(containers=many(n, lambda _: {}))), 2_000),
    Case(
        "containers of one name",
        "edit",
        lambda n: create(PODS, pod(containers=many(n, lambda _: {"name": "a", "image": "x"}))),
        1_000,
    ),
    Case("volumes of one name", "edit", lambda n: create(PODS, pod(volumes=many(n, lambda _: {"name": "a"}))), 2_000),
    Case(
        "ports of one name",
        "edit",
        lambda n: create(
            PODS, pod(containers=[{"name": "a", "image": "x", "ports": many(n, lambda _: {"name": "a"})}])
        ),
        2_000,
    ),
    Case(
        "variables without a name",
        "edit",
        lambda n: create(PODS, pod(containers=[{"name": "a", "image": "x", "env": many(n, lambda _: {})}])),
        4_000,
    ),
    Case(
        "mounts of nothing",
        "edit",
        lambda n: create(PODS, pod(containers=[{"name": "a", "image": "x", "volumeMounts": many(n, lambda _: {})}])),
        4_000,
    ),
    Case(
        "requests of everything",
        "edit",
        lambda n: create(
            PODS,
            pod(
                containers=[
                    {"name": "a", "image": "x", "resources": {"requests": named(n, str), "limits": named(n, str)}}
                ]
            ),
        ),
        1_000,
    ),
    Case(
        "tolerations of nothing",
        "edit",
        lambda n: create(PODS, pod(tolerations=many(n, lambda _: {"operator": _LONG}))),
        1_000,
    ),
    Case(
        "sysctls of one name",
        "edit",
        lambda n: create(PODS, pod(securityContext={"sysctls": many(n, lambda _: {"name": "a", "value": ""})})),
        2_000,
    ),
    Case(
        "ports of a Service",
        "edit",
        lambda n: create(SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": many(n, lambda _: {"port": 1})}}),
        2_000,
    ),
    Case(
        "a selector of a Service that is none",
        "edit",
        lambda n: create(
            SERVICES, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}], "selector": named(n, str, "a/b/c")}}
        ),
        2_000,
    ),
    Case("an event that is long", "edit", lambda n: create(f"{CORE}/events", _event(message="x" * n)), 200_000),
    Case(
        "claims' access modes",
        "edit",
        lambda n: create(
            f"{CORE}/persistentvolumeclaims",
            {"metadata": {"name": "a"}, "spec": {"accessModes": many(n, lambda _: "x")}},
        ),
        8_000,
    ),
    Case(
        "a VM's disks",
        "edit",
        lambda n: create(
            VMS, vm(template={"domain": {"devices": {"disks": many(n, lambda i: {"name": f"d{i}", "disk": {}})}}})
        ),
        1_000,
    ),
    Case(
        "a VM's disks of one name",
        "edit",
        lambda n: create(VMS, vm(template={"domain": {"devices": {"disks": many(n, lambda _: {"name": "a"})}}})),
        1_000,
    ),
    Case(
        "a VM's disks that are numbers",
        "edit",
        lambda n: create(VMS, vm(template={"domain": {"devices": {"disks": many(n, int)}}})),
        4_000,
    ),
    Case(
        "a VM's volumes without anything",
        "edit",
        lambda n: create(VMS, vm(template={"volumes": many(n, lambda _: {})})),
        4_000,
    ),
    Case(
        "a VM's templates",
        "edit",
        lambda n: create(VMS, vm(spec={"dataVolumeTemplates": many(n, lambda _: {})})),
        4_000,
    ),
]

RIGHTS: Final = [
    Case("rules without anything", "admin", lambda n: create(f"{RBAC}/roles", _role(many(n, lambda _: {}))), 4_000),
    Case("a rule of many verbs", "admin", lambda n: create(f"{RBAC}/roles", _role([_rule(verbs=many(n, str))])), 1_000),
    Case(
        "a rule of many names",
        "admin",
        lambda n: create(f"{RBAC}/roles", _role([_rule(resourceNames=many(n, str))])),
        2_000,
    ),
    Case(
        "a rule of many of everything",
        "admin",
        lambda n: create(
            f"{RBAC}/roles",
            _role(
                [_rule(verbs=many(n, str), resources=many(n, str), apiGroups=many(n, str), resourceNames=many(n, str))]
            ),
        ),
        10,
    ),
    Case(
        "a rule of what is held, in many words",
        "admin",
        lambda n: create(
            f"{RBAC}/roles",
            _role([_rule(verbs=["get", "list", "watch"] * n, resources=["pods", "services", "configmaps"] * n)]),
        ),
        20,
    ),
    Case(
        "many rules",
        "admin",
        lambda n: create(f"{RBAC}/roles", _role(many(n, lambda i: _rule(verbs=["get"], resources=[f"r{i}"])))),
        1_000,
    ),
    Case(
        "many rules of what is held",
        "admin",
        lambda n: create(f"{RBAC}/roles", _role(many(n, lambda _: _rule(verbs=["get"], resources=["pods"])))),
        1_000,
    ),
    Case(
        "subjects without anything",
        "admin",
        lambda n: create(f"{RBAC}/rolebindings", _binding(many(n, lambda _: {}))),
        4_000,
    ),
    Case(
        "subjects",
        "admin",
        lambda n: create(
            f"{RBAC}/rolebindings",
            _binding(many(n, lambda i: {"kind": "User", "name": f"u{i}", "apiGroup": "rbac.authorization.k8s.io"})),
        ),
        2_000,
    ),
]


def _rule(**fields: Any) -> dict[str, Any]:
    return {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **fields}


def _role(rules: list[Any]) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "rules": rules}


def _binding(subjects: list[Any]) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    return {"metadata": {"name": "a"}, "roleRef": reference, "subjects": subjects}


_PATCHED: Final = f"{CONFIG_MAPS}/patched"
_PATCHED_WIDGET: Final = f"{WIDGETS}/patched"
_PATCHED_POD: Final = f"{PODS}/patched"


def _finalizers(n: int) -> list[str]:
    return [f"example.com/f{number}" for number in range(n)]


def _with_finalizers(n: int) -> There:
    return CONFIG_MAPS, config_map("patched", finalizers=_finalizers(n))


def _plain(n: int) -> There:
    return CONFIG_MAPS, config_map("patched")


def _with_parts(n: int) -> There:
    return WIDGETS, widget("patched", spec={"parts": parts(n)})


def _with_parts_of_one(n: int) -> There:
    return _with_parts(1)


def _with_variables(n: int) -> There:
    return PODS, pod("patched", containers=[{"name": "a", "image": "x", "env": _variables(n)}])


def _variables(n: int) -> list[Any]:
    return many(n, lambda number: {"name": f"v{number}", "value": ""})


def _of_variables(n: int, **directives: Any) -> Request:
    return strategic(_PATCHED_POD, {"spec": {"containers": [{"name": "a", **directives}]}})


JSON_PATCHES: Final = [
    Case(
        "additions",
        "edit",
        lambda n: steps(
            _PATCHED,
            [
                {"op": "add", "path": "/data", "value": {}},
                *({"op": "add", "path": f"/data/k{i}", "value": ""} for i in range(n)),
            ],
        ),
        2_000,
        _plain,
    ),
    Case(
        "items put in front",
        "edit",
        lambda n: steps(
            _PATCHED_WIDGET,
            [
                {"op": "add", "path": "/spec/free", "value": {"a": many(n * 50, int)}},
                *({"op": "add", "path": "/spec/free/a/0", "value": 1} for _ in range(n)),
            ],
        ),
        1_000,
        _with_parts_of_one,
    ),
    Case(
        "items taken from the front",
        "edit",
        lambda n: steps(
            _PATCHED_WIDGET,
            [
                {"op": "add", "path": "/spec/free", "value": {"a": many(n * 50, int)}},
                *({"op": "remove", "path": "/spec/free/a/0"} for _ in range(n)),
            ],
        ),
        1_000,
        _with_parts_of_one,
    ),
    Case(
        "tests",
        "edit",
        lambda n: steps(_PATCHED_WIDGET, many(n, lambda _: {"op": "test", "path": "/spec/parts", "value": [1]})),
        2_000,
        _with_parts_of_one,
    ),
    Case(
        "copies",
        "edit",
        lambda n: steps(
            _PATCHED_WIDGET,
            [
                {"op": "add", "path": "/spec/free", "value": {}},
                *({"op": "copy", "from": "/spec/parts", "path": f"/spec/free/k{i}"} for i in range(n)),
            ],
        ),
        1_000,
        _with_parts_of_one,
    ),
    Case(
        "moves",
        "edit",
        lambda n: steps(
            _PATCHED_WIDGET,
            [
                {"op": "add", "path": "/spec/free", "value": {"a0": 1}},
                *({"op": "move", "from": f"/spec/free/a{i}", "path": f"/spec/free/a{i + 1}"} for i in range(n)),
            ],
        ),
        2_000,
        _with_parts_of_one,
    ),
    Case("one long path", "edit", lambda n: steps(_PATCHED, [{"op": "remove", "path": "/a" * n}]), 50_000, _plain),
    Case(
        "an operation that is a long text",
        "edit",
        lambda n: steps(_PATCHED, [{"op": "x" * n, "path": "/a"}]),
        200_000,
        _plain,
    ),
]

MERGE_PATCHES: Final = [
    Case("data", "edit", lambda n: patch(_PATCHED, {"data": named(n, str)}), 4_000, _plain),
    Case("nulls", "edit", lambda n: patch(_PATCHED, {"data": named(n, lambda _: None)}), 8_000, _plain),
    Case("finalizers", "edit", lambda n: patch(_PATCHED, {"metadata": {"finalizers": _finalizers(n)}}), 2_000, _plain),
    Case(
        "deep members",
        "edit",
        lambda n: patch(_PATCHED_WIDGET, {"spec": {"free": named(n, lambda _: _deep(50, 1))}}),
        40,
        _with_parts_of_one,
    ),
]

STRATEGIC_PATCHES: Final = [
    Case(
        "finalizers that are there",
        "edit",
        lambda n: strategic(_PATCHED, {"metadata": {"finalizers": _finalizers(n)}}),
        500,
        _with_finalizers,
    ),
    Case(
        "finalizers", "edit", lambda n: strategic(_PATCHED, {"metadata": {"finalizers": _finalizers(n)}}), 500, _plain
    ),
    Case(
        "finalizers in another order",
        "edit",
        lambda n: strategic(
            _PATCHED,
            {"metadata": {"finalizers": _finalizers(n)[::-1], "$setElementOrder/finalizers": _finalizers(n)[::-1]}},
        ),
        500,
        _with_finalizers,
    ),
    Case(
        "finalizers taken away",
        "edit",
        lambda n: strategic(_PATCHED, {"metadata": {"$deleteFromPrimitiveList/finalizers": _finalizers(n)[::-1]}}),
        500,
        _with_finalizers,
    ),
    Case(
        "an order alone",
        "edit",
        lambda n: strategic(_PATCHED, {"metadata": {"$setElementOrder/finalizers": _finalizers(n)[::-1]}}),
        500,
        _with_finalizers,
    ),
    Case(
        "an order that does not fit",
        "edit",
        lambda n: strategic(
            _PATCHED, {"metadata": {"finalizers": _finalizers(n), "$setElementOrder/finalizers": _finalizers(n)[::-1]}}
        ),
        500,
        _with_finalizers,
    ),
    Case(
        "fields that are kept",
        "edit",
        lambda n: strategic(_PATCHED, {"data": {"$retainKeys": many(n, lambda i: f"k{i}"), **named(n, str)}}),
        1_000,
        _plain,
    ),
    Case("variables", "edit", lambda n: _of_variables(n, env=_variables(n)), 500, _with_variables),
    Case(
        "variables in another order", "edit", lambda n: _of_variables(n, env=_variables(n)[::-1]), 500, _with_variables
    ),
    Case(
        "variables taken away",
        "edit",
        lambda n: _of_variables(n, env=many(n, lambda i: {"name": f"v{i}", "$patch": "delete"})),
        500,
        _with_variables,
    ),
    Case(
        "variables replaced",
        "edit",
        lambda n: _of_variables(n, env=[*_variables(n), {"$patch": "replace"}]),
        500,
        _with_variables,
    ),
    Case(
        "owners", "edit", lambda n: strategic(_PATCHED, {"metadata": {"ownerReferences": many(n, _owner)}}), 500, _plain
    ),
    Case(
        "directives that are none",
        "edit",
        lambda n: strategic(_PATCHED, {"data": {"$patch": "x" * n}}),
        200_000,
        _plain,
    ),
]

APPLY: Final = [
    Case(
        "a new widget of many parts",
        "edit",
        lambda n: applied(f"{WIDGETS}/new", widget("new", spec={"parts": parts(n)})),
        500,
    ),
    Case(
        "parts over those that are there",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"parts": parts(n)})),
        500,
        _with_parts,
    ),
    Case(
        "parts in another order",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"parts": parts(n)[::-1]})),
        500,
        _with_parts,
    ),
    Case(
        "parts of another's",
        "edit",
        lambda n: applied(
            _PATCHED_WIDGET, widget("patched", spec={"parts": many(n, lambda i: {"name": f"p{i}", "weight": -1})})
        ),
        500,
        _with_parts,
    ),
    Case(
        "parts of one name",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"parts": many(n, lambda _: {"name": "a"})})),
        2_000,
        _with_parts_of_one,
    ),
    Case(
        "parts without a name",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"parts": many(n, lambda _: {})})),
        2_000,
        _with_parts_of_one,
    ),
    Case(
        "finalizers",
        "edit",
        lambda n: applied(_PATCHED, config_map("patched", finalizers=_finalizers(n)[::-1])),
        500,
        _with_finalizers,
    ),
    Case(
        "owners",
        "edit",
        lambda n: applied(
            _PATCHED, config_map("patched", ownerReferences=many(n, lambda i: {**_owner(i), "controller": False}))
        ),
        500,
        _plain,
    ),
    Case("data", "edit", lambda n: applied(_PATCHED, config_map("patched", data=named(n, str))), 2_000, _plain),
    Case(
        "deep members",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"free": named(n, lambda _: _deep(40, 1))})),
        40,
        _with_parts_of_one,
    ),
    Case(
        "members below a deep one",
        "edit",
        lambda n: applied(_PATCHED_WIDGET, widget("patched", spec={"free": _deep(60, named(n, int))})),
        500,
        _with_parts_of_one,
    ),
]

WRITES: Final = {
    "metadata": METADATA,
    "schema": SCHEMA,
    "warnings": WARNINGS,
    "kinds": KINDS,
    "rights": RIGHTS,
    "JSON patch": JSON_PATCHES,
    "merge patch": MERGE_PATCHES,
    "strategic patch": STRATEGIC_PATCHES,
    "apply": APPLY,
}

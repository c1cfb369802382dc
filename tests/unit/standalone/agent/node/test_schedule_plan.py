# Tests: kvedge/standalone/label_matching.py
from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.meta import Condition, ObjectMeta
from kvedge.resources.types.core import (
    Container,
    ContainerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kvedge.standalone.agent.node.schedule_plan import fit_reasons, pod_requests, unschedulable_message


def _node(**changes: Any) -> Node:
    labels = {"kubernetes.io/hostname": "box", "kubevirt.io/schedulable": "true", "cores": "8"}
    made = Node(
        metadata=ObjectMeta(name="box", labels=labels),
        spec=NodeSpec(),
        status=NodeStatus(
            allocatable={"cpu": "2", "memory": "4Gi", "pods": "3", "devices.kubevirt.io/kvm": "1"},
            conditions=[{"type": "Ready", "status": "True"}],
        ),
    )
    for key, value in changes.items():
        setattr(made.spec, key, value)
    return made


def _pod(name: str = "p", phase: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    requests = spec.pop("requests", {})
    limits = spec.pop("limits", {})
    container = Container(name="c", resources=ResourceRequirements(requests=requests, limits=limits))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name, labels=labels or {}),
        spec=PodSpec(containers=[container], **spec),
        status=PodStatus(phase=phase),
    )


def test_a_pod_that_asks_for_nothing_fits() -> None:
    assert fit_reasons(_pod(), _node(), []) == []


@pytest.mark.parametrize(
    ("requests", "reasons"),
    [
        ({"memory": "4Gi", "cpu": "2"}, []),
        ({"memory": "4097Mi"}, ["Insufficient memory"]),
        ({"cpu": "2001m", "memory": "5Gi"}, ["Insufficient cpu", "Insufficient memory"]),
        ({"devices.kubevirt.io/kvm": "2"}, ["Insufficient devices.kubevirt.io/kvm"]),
        ({"example.com/unknown": 1}, ["Insufficient example.com/unknown"]),
        ({"hugepages-2Mi": "2Mi"}, ["Insufficient hugepages-2Mi"]),
        ({"hugepages-2Mi": "0"}, []),
    ],
)
def test_room_is_counted_exactly(requests: dict[str, str | int], reasons: list[str]) -> None:
    assert fit_reasons(_pod(requests=requests), _node(), []) == reasons


def test_what_others_ask_for_is_taken_and_what_has_ended_is_free() -> None:
    large = {"memory": "3Gi"}
    assert fit_reasons(_pod(requests=large), _node(), [_pod("a", requests=large)]) == ["Insufficient memory"]
    assert fit_reasons(_pod(requests=large), _node(), [_pod("a", "Succeeded", requests=large)]) == []
    assert fit_reasons(_pod(requests=large), _node(), [_pod("a", "Failed", requests=large)]) == []


@pytest.mark.parametrize(("reason", "fits"), [("Infeasible", True), ("Deferred", False)])
def test_a_pod_that_can_never_be_so_large_is_as_large_as_it_is(reason: str, fits: bool) -> None:
    other = _pod("other", "Running", requests={"memory": "64Gi"})
    other.status.conditions = [Condition(type="PodResizePending", status="True", reason=reason)]
    said = ContainerStatus(name="c", ready=True, restart_count=0, image="", image_id="")
    said.allocated_resources = {"memory": "1Gi"}
    other.status.container_statuses = [said]
    assert fit_reasons(_pod(requests={"memory": "1Gi"}), _node(), [other]) == ([] if fits else ["Insufficient memory"])


@pytest.mark.parametrize("held", ["containers", "init containers"])
def test_what_a_pod_is_to_give_back_is_taken_until_it_has_less(held: str) -> None:
    other = _pod("other", "Running", requests={"memory": "1Gi"})
    said = ContainerStatus(name="c", ready=True, restart_count=0, image="", image_id="")
    said.allocated_resources = {"memory": "3Gi"}
    if held == "containers":
        other.status.container_statuses = [said]
    else:
        other.spec.init_containers, other.spec.containers = other.spec.containers, []
        other.status.init_container_statuses = [said]
    wanting = _pod(requests={"memory": "2Gi"})
    assert fit_reasons(wanting, _node(), [other]) == ["Insufficient memory"]
    said.allocated_resources = {"memory": "1Gi"}
    assert fit_reasons(wanting, _node(), [other]) == []


def test_a_limit_without_a_request_is_a_request() -> None:
    assert fit_reasons(
        _pod(limits={"devices.kubevirt.io/kvm": "1"}), _node(), [_pod("a", limits={"devices.kubevirt.io/kvm": "1"})]
    ) == ["Insufficient devices.kubevirt.io/kvm"]


def test_only_so_many_pods_fit() -> None:
    assert fit_reasons(_pod(), _node(), [_pod("a"), _pod("b"), _pod("c")]) == ["Too many pods"]


def test_a_large_init_container_counts_where_it_is_larger_than_all_others() -> None:
    pod = _pod(requests={"memory": "1Gi", "cpu": "1"})
    pod.spec.init_containers = [
        Container(name="i", resources=ResourceRequirements(requests={"memory": "2Gi", "cpu": "500m"}))
    ]

    assert pod_requests(pod) == {"memory": 2 << 30, "cpu": 1}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"node_selector": {"kubevirt.io/schedulable": "true"}}, True),
        ({"node_selector": {"kubevirt.io/schedulable": "false"}}, False),
        ({"node_selector": {"absent": ""}}, False),
    ],
)
def test_a_node_selector_must_match(spec: dict[str, Any], fits: bool) -> None:
    reasons = [] if fits else ["node(s) didn't match Pod's node affinity/selector"]
    assert fit_reasons(_pod(**spec), _node(), []) == reasons


def _affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("operator", "key", "values", "fits"),
    [
        ("In", "cores", ["4", "8"], True),
        ("In", "cores", ["4"], False),
        ("NotIn", "cores", ["4"], True),
        ("NotIn", "absent", ["4"], True),
        ("Exists", "cores", [], True),
        ("Exists", "absent", [], False),
        ("DoesNotExist", "absent", [], True),
        ("DoesNotExist", "cores", [], False),
        ("Gt", "cores", ["7"], True),
        ("Gt", "cores", ["8"], False),
        ("Lt", "cores", ["9"], True),
        ("Lt", "absent", ["9"], False),
        ("Gt", "kubernetes.io/hostname", ["1"], False),
        ("Nonsense", "cores", ["8"], False),
    ],
)
def test_node_affinity_knows_every_operator(operator: str, key: str, values: list[str], fits: bool) -> None:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}

    assert (fit_reasons(_pod(affinity=_affinity(term)), _node(), []) == []) == fits


def test_one_matching_term_is_enough_and_an_empty_one_matches_nothing() -> None:
    never = {"matchExpressions": [{"key": "absent", "operator": "Exists"}]}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["box"]}]}

    assert fit_reasons(_pod(affinity=_affinity(never, named)), _node(), []) == []
    assert fit_reasons(_pod(affinity=_affinity({})), _node(), []) != []


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({}, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
    ],
)
def test_a_taint_must_be_tolerated(toleration: dict[str, str], fits: bool) -> None:
    node = _node(taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])

    reasons = fit_reasons(_pod(tolerations=[toleration]), node, [])
    assert reasons == ([] if fits else ["node(s) had untolerated taint {k: v}"])


def test_a_taint_that_only_prefers_is_no_obstacle() -> None:
    assert fit_reasons(_pod(), _node(taints=[{"key": "k", "effect": "PreferNoSchedule"}]), []) == []


def test_a_node_that_is_cordoned_or_not_ready_takes_nothing() -> None:
    assert fit_reasons(_pod(), _node(unschedulable=True), []) == ["node(s) were unschedulable"]
    node = _node()
    node.status.conditions = [{"type": "Ready", "status": "False"}]
    assert fit_reasons(_pod(), node, []) == ["node(s) were not ready"]


def _apart(kind: str) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_pods_that_must_be_apart_are_not_put_together_on_one_box() -> None:
    db, other = _pod("a", labels={"app": "db"}), _pod("b", labels={"app": "web"})

    assert fit_reasons(_pod(affinity=_apart("podAntiAffinity")), _node(), [other]) == []
    assert fit_reasons(_pod(affinity=_apart("podAntiAffinity")), _node(), [db]) == [
        "node(s) didn't match pod anti-affinity rules"
    ]


def test_pods_that_must_be_together_wait_for_each_other_but_the_first_of_its_kind_may_start() -> None:
    wanted = _apart("podAffinity")

    assert fit_reasons(_pod(affinity=wanted), _node(), []) == ["node(s) didn't match pod affinity rules"]
    assert fit_reasons(_pod(affinity=wanted), _node(), [_pod("a", labels={"app": "db"})]) == []
    assert fit_reasons(_pod(labels={"app": "db"}, affinity=wanted), _node(), []) == []


def test_the_message_is_the_scheduler_s() -> None:
    assert unschedulable_message([["Insufficient memory", "Insufficient cpu"]]) == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    )
    assert unschedulable_message([]) == "no nodes available to schedule pods"


def _alone(cpus: str, name: str = "p", phase: str = "") -> Pod:
    amount = {"cpu": cpus, "memory": "1Gi"}
    selector = {"kubevirt.io/cpumanager": "true"}
    return _pod(name, phase, requests=amount, limits=amount, node_selector=selector)


def _with_pool() -> Node:
    made = _node()
    made.metadata.labels["kubevirt.io/cpumanager"] = "true"
    made.status.allocatable["cpu"] = "4"
    return made


def test_cpus_for_a_guest_alone_are_those_of_the_pool() -> None:
    node, busy = _with_pool(), _pod("busy", requests={"cpu": "2"})
    assert fit_reasons(_alone("2"), node, [busy], 2) == []
    full = [_alone("1", "a"), _alone("1", "ended", "Succeeded")]
    assert fit_reasons(_alone("2"), node, full, 2) == ["Insufficient dedicated CPUs (2 wanted, 1 of 2 free)"]
    assert fit_reasons(_alone("1"), node, full, 2) == []
    # The pool became smaller.
    assert fit_reasons(_alone("1"), node, [_alone("2", "a")], 1) == [
        "Insufficient dedicated CPUs (1 wanted, 0 of 1 free)"
    ]


def test_others_have_the_cpus_beside_the_pool() -> None:
    node, guest = _with_pool(), _alone("2", "guest")
    assert fit_reasons(_pod(requests={"cpu": "2"}), node, [guest], 2) == []
    assert fit_reasons(_pod(requests={"cpu": "2001m"}), node, [guest], 2) == ["Insufficient cpu"]


def test_a_box_without_a_pool_has_no_place_for_guests_alone() -> None:
    assert fit_reasons(_alone("1"), _node(), []) == ["node(s) didn't match Pod's node affinity/selector"]

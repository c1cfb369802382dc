"""Tables: the rows that kubectl prints for built-in kinds and for custom ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.pod_columns import summarize
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind
from kvedge.standalone.apiserver.requests.table_manifest import columns_for_crd, columns_of, table
from kvedge.standalone.apiserver.wire.human_ages import age, human_duration
from tests.support.builders import pod_document

NOW = datetime(2026, 2, 3, 12, 0, 0, tzinfo=UTC)
INDEX = KindIndex(BUILT_IN)


def kind_of(api_version: str, kind: str) -> ServedKind:
    found = INDEX.of(api_version, kind)
    assert found is not None
    return found


def ago(**units: int) -> str:
    return (NOW - timedelta(**units)).strftime("%Y-%m-%dT%H:%M:%SZ")


def printed(obj: dict[str, Any], wide: bool = False) -> dict[str, Any]:
    """The row of an object as kubectl prints it, by column."""
    rendered = table([obj], columns_of(kind_of(obj["apiVersion"], obj["kind"])), NOW)
    shown = zip(rendered["columnDefinitions"], rendered["rows"][0]["cells"], strict=True)
    return {column["name"]: cell for column, cell in shown if wide or not column["priority"]}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 120, "3h2m"),
        (9 * 3600 + 120, "9h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (730 * 86400, "2y"),
        (750 * 86400, "2y20d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_read_as_kubectl_shows_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_an_age_without_a_time_is_unknown_and_one_that_is_none_is_invalid() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age("yesterday", NOW) == "<invalid>"
    assert age("2026-02-03T11:59:00.123456Z", NOW) == "59s"


def pod(status: dict[str, Any], containers: int = 1, **more: Any) -> dict[str, Any]:
    spec = more.pop("spec", {})
    metadata = {"creationTimestamp": ago(minutes=5), **more}
    return pod_document(
        *({"name": f"c{index}"} for index in range(containers)), status=status, metadata=metadata, **spec
    )


def container(name: str = "c0", ready: bool = False, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": 0, "state": state}


READY = {"type": "Ready", "status": "True"}
STATUSES = [
    pytest.param(pod({"phase": "Pending"}), "Pending", "0/1", id="not scheduled"),
    pytest.param(
        pod(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            }
        ),
        "SchedulingGated",
        "0/1",
        id="gated",
    ),
    pytest.param(
        pod({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}),
        "ContainerCreating",
        "0/1",
        id="being created",
    ),
    pytest.param(
        pod(
            {
                "phase": "Running",
                "conditions": [READY],
                "containerStatuses": [container(ready=True, running={"startedAt": "x"})],
            }
        ),
        "Running",
        "1/1",
        id="running",
    ),
    pytest.param(
        pod(
            {"phase": "Succeeded", "containerStatuses": [container(terminated={"exitCode": 0, "reason": "Completed"})]}
        ),
        "Completed",
        "0/1",
        id="completed",
    ),
    pytest.param(
        pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 1, "reason": "Error"})]}),
        "Error",
        "0/1",
        id="failed",
    ),
    pytest.param(
        pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 137, "signal": 9})]}),
        "Signal:9",
        "0/1",
        id="killed",
    ),
    pytest.param(
        pod({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]}),
        "ExitCode:3",
        "0/1",
        id="exit code",
    ),
    pytest.param(pod({"phase": "Failed", "reason": "Evicted"}), "Evicted", "0/1", id="evicted"),
    pytest.param(
        pod(
            {"phase": "Pending", "initContainerStatuses": [container("i0", running={})]},
            spec={"initContainers": [{"name": "i0"}, {"name": "i1"}]},
        ),
        "Init:0/2",
        "0/1",
        id="first init container",
    ),
    pytest.param(
        pod(
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    container("i0", terminated={"exitCode": 0}),
                    container("i1", terminated={"exitCode": 2}),
                ],
            },
            spec={"initContainers": [{"name": "i0"}, {"name": "i1"}]},
        ),
        "Init:ExitCode:2",
        "0/1",
        id="second init container failed",
    ),
    pytest.param(
        pod(
            {"phase": "Pending", "initContainerStatuses": [container("i0", waiting={"reason": "ErrImagePull"})]},
            spec={"initContainers": [{"name": "i0"}]},
        ),
        "Init:ErrImagePull",
        "0/1",
        id="init container has no image",
    ),
    pytest.param(
        pod(
            {"phase": "Running", "containerStatuses": [container(ready=True, running={})]},
            deletionTimestamp=ago(seconds=3),
        ),
        "Terminating",
        "1/1",
        id="being deleted",
    ),
    pytest.param(
        pod(
            {"phase": "Succeeded", "containerStatuses": [container(terminated={"exitCode": 0, "reason": "Completed"})]},
            deletionTimestamp=ago(seconds=3),
        ),
        "Completed",
        "0/1",
        id="deleted after it was done",
    ),
    pytest.param(
        pod(
            {
                "phase": "Running",
                "conditions": [READY],
                "containerStatuses": [
                    container("c0", terminated={"exitCode": 0, "reason": "Completed"}),
                    container("c1", ready=True, running={}),
                ],
            },
            containers=2,
        ),
        "Running",
        "1/2",
        id="one of two is done",
    ),
    pytest.param(
        pod(
            {
                "phase": "Running",
                "initContainerStatuses": [{**container("s", ready=True, running={}), "started": True}],
                "containerStatuses": [container(ready=True, running={})],
            },
            spec={"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
        ),
        "Running",
        "2/2",
        id="with a sidecar",
    ),
]


@pytest.mark.parametrize(("obj", "status", "ready"), STATUSES)
def test_the_status_of_a_pod_is_what_kubectl_says(obj: dict[str, Any], status: str, ready: str) -> None:
    row = printed(obj)
    assert (row["Status"], row["Ready"], row["Age"]) == (status, ready, "5m")


def test_restarts_say_when_the_last_one_was() -> None:
    running = {
        **container(ready=True, running={}),
        "restartCount": 3,
        "lastState": {"terminated": {"finishedAt": ago(minutes=4)}},
    }
    assert printed(pod({"phase": "Running", "containerStatuses": [running]}))["Restarts"] == "3 (4m ago)"
    assert summarize(pod({"phase": "Pending"})).restarts_text(NOW) == "0"


def test_a_wide_pod_shows_where_it_is() -> None:
    obj = pod(
        {"phase": "Running", "podIP": "10.99.0.2", "conditions": [{"type": "g", "status": "True"}]},
        spec={"nodeName": "box", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
    )
    row = printed(obj, wide=True)
    assert [row[name] for name in ("IP", "Node", "Nominated Node", "Readiness Gates")] == [
        "10.99.0.2",
        "box",
        "<none>",
        "1/2",
    ]


def test_a_pod_that_is_over_says_so_in_its_row() -> None:
    rendered = table([pod({"phase": "Succeeded"})], columns_of(kind_of("v1", "Pod")), NOW)
    assert rendered["rows"][0]["conditions"] == [
        {"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."}
    ]


@pytest.mark.parametrize(
    ("obj", "row"),
    [
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}},
                "spec": {"unschedulable": True},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "nodeInfo": {"kubeletVersion": "v0.1.0"},
                },
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "edge,worker", "Version": "v0.1.0", "Age": "<unknown>"},
            id="node",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d"}, "status": {"phase": "Active"}},
            {"Name": "d", "Status": "Active"},
            id="namespace",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": "", "b": ""}},
            {"Type": "Opaque", "Data": 2},
            id="secret",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": ""}, "binaryData": {"b": ""}},
            {"Data": 2},
            id="config map",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "spec": {
                    "clusterIP": "10.0.0.1",
                    "ports": [{"port": 80}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}],
                },
            },
            {"Type": "ClusterIP", "Cluster-IP": "10.0.0.1", "External-IP": "<none>", "Port(s)": "80/TCP,53:30053/UDP"},
            id="service",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Service", "spec": {"type": "LoadBalancer"}},
            {"External-IP": "<pending>", "Port(s)": "<none>"},
            id="load balancer",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "subsets": [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(1, 6)], "ports": [{"port": 443}]}],
            },
            {"Endpoints": "10.0.0.1:443,10.0.0.2:443,10.0.0.3:443 + 2 more..."},
            id="endpoints",
        ),
        pytest.param(
            {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "me"}},
            {"Holder": "me"},
            id="lease",
        ),
        pytest.param(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "a.b", "creationTimestamp": "2026-01-01T00:00:00Z"},
            },
            {"Name": "a.b", "Created At": "2026-01-01T00:00:00Z"},
            id="crd",
        ),
        pytest.param(
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "spec": {"service": {"namespace": "n", "name": "s"}},
                "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]},
            },
            {"Service": "n/s", "Available": "False (MissingEndpoints)"},
            id="api service",
        ),
        pytest.param(
            {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "IPAddress",
                "spec": {
                    "parentRef": {"group": "kubevirt.io", "resource": "virtualmachines", "namespace": "n", "name": "vm"}
                },
            },
            {"ParentRef": "virtualmachines.kubevirt.io/n/vm"},
            id="ip address",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "type": "Normal",
                "reason": "Started",
                "message": " it runs\n",
                "involvedObject": {"kind": "VirtualMachine", "name": "vm"},
                "firstTimestamp": ago(minutes=20),
                "lastTimestamp": ago(seconds=30),
            },
            {
                "Last Seen": "30s",
                "Type": "Normal",
                "Reason": "Started",
                "Object": "virtualmachine/vm",
                "Message": "it runs",
            },
            id="event",
        ),
        pytest.param(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}},
            {"Name": "r", "Created At": ""},
            id="a kind without columns of its own",
        ),
    ],
)
def test_a_row_shows_what_people_look_for(obj: dict[str, Any], row: dict[str, Any]) -> None:
    shown = printed(obj)
    assert {name: shown[name] for name in row} == row


def test_every_built_in_kind_has_a_row_even_when_it_is_empty() -> None:
    for kind in BUILT_IN:
        rendered = table([{"apiVersion": kind.api_version, "kind": kind.kind}], columns_of(kind), NOW)
        assert len(rendered["rows"][0]["cells"]) == len(rendered["columnDefinitions"])


def test_an_event_that_was_only_seen_once_counts_once() -> None:
    shown = printed(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "eventTime": ago(minutes=3),
            "reportingComponent": "kvedge",
            "metadata": {"name": "e"},
        },
        wide=True,
    )
    assert (shown["Last Seen"], shown["First Seen"], shown["Count"], shown["Source"], shown["Name"]) == (
        "3m",
        "3m",
        1,
        "kvedge",
        "e",
    )


VERSION = {
    "additionalPrinterColumns": [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Status", "type": "string", "jsonPath": ".status.printableStatus", "description": "what it does"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "All", "type": "string", "jsonPath": ".spec"},
    ]
}


def test_a_custom_kind_shows_the_columns_of_its_definition() -> None:
    obj = {
        "metadata": {"name": "vm", "creationTimestamp": ago(hours=5)},
        "spec": {"count": 3.0, "on": True},
        "status": {"printableStatus": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    rendered = table(
        [obj, {"metadata": {"name": "new"}}], columns_for_crd(VERSION), NOW, list_metadata={"resourceVersion": "7"}
    )
    assert rendered["rows"][0]["cells"] == ["vm", "5h", "Running", "True", 3, True, '{"count":3.0,"on":true}']
    assert rendered["rows"][1]["cells"] == ["new", None, None, None, None, None, None]
    assert rendered["metadata"] == {"resourceVersion": "7"}
    assert rendered["columnDefinitions"][4] == {
        "name": "Count",
        "type": "integer",
        "format": "",
        "description": "",
        "priority": 1,
    }


def test_a_custom_kind_without_columns_shows_name_and_age() -> None:
    rendered = table([{"metadata": {"name": "a", "creationTimestamp": ago(days=3)}}], columns_for_crd({}), NOW)
    assert rendered["rows"][0]["cells"] == ["a", "3d"]


def test_a_value_of_another_type_than_its_column_is_no_cell() -> None:
    columns = columns_for_crd(
        {
            "additionalPrinterColumns": [
                {"name": "N", "type": "integer", "jsonPath": ".n"},
                {"name": "D", "type": "date", "jsonPath": ".d"},
                {"name": "B", "type": "string", "jsonPath": ".b["},
            ]
        }
    )
    assert table([{"n": True, "d": "soon", "b": "x"}], columns, NOW)["rows"][0]["cells"] == [
        "",
        None,
        "<invalid>",
        None,
    ]


def test_a_row_carries_as_much_of_its_object_as_was_asked_for() -> None:
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "YQ=="}}
    columns = columns_of(kind_of("v1", "Secret"))
    assert table([obj], columns, NOW)["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "s"},
    }
    assert table([obj], columns, NOW, "Object")["rows"][0]["object"] == obj
    assert "object" not in table([obj], columns, NOW, "None")["rows"][0]

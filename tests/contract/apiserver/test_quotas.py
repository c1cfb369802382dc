"""What a namespace may use: quotas and limit ranges, judged by a real kube-apiserver where it can."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server, embedded, new_namespace
from tests.support.api_client import STRATEGIC, TABLE, Answer, ApiClient, eventually
from tests.support.builders import pod_document
from tests.support.widgets import config_maps, widgets

pytestmark = pytest.mark.contract


def core(namespace: str, plural: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}"


def pod(name: str = "p", *resources: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Pod with one container for each of `resources`, at least one."""
    containers = (
        {"name": f"c{index}", "image": "x", "resources": asked} for index, asked in enumerate(resources or ({},))
    )
    return pod_document(*containers, metadata={"name": name}, **{"restartPolicy": "Never", **spec})


def asking(cpu: str = "", memory: str = "", most_cpu: str = "", most_memory: str = "") -> dict[str, Any]:
    """Resources of a container: requests, then limits."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    limits = {key: value for key, value in (("cpu", most_cpu), ("memory", most_memory)) if value}
    return {"requests": requests, **({"limits": limits} if limits else {})}


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def claim(name: str, size: str, storage_class: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {**named(name), "spec": {**spec, **({"storageClassName": storage_class} if storage_class else {})}}


def service(name: str, kind: str = "ClusterIP", ports: int = 1) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 1000 + number} for number in range(ports)]
    return {**named(name), "spec": {"type": kind, "ports": listed}}


def limit(server: Server, namespace: str, name: str = "q", /, **spec: Any) -> None:
    """Make a quota, and wait until it is in force."""
    path = core(namespace, "resourcequotas")
    server.admin.made(path, {**named(name), "spec": spec})
    if server.is_real:
        # The quota controller of a cluster would do this; admission keeps it from then on.
        status = {"hard": spec["hard"], "used": dict.fromkeys(spec["hard"], "0")}
        assert server.admin.patch(f"{path}/{name}/status", {"status": status}).status == 200
    eventually(lambda: "used" in (server.admin.get(f"{path}/{name}").json.get("status") or {}))


def used(admin: ApiClient, namespace: str, name: str = "q") -> dict[str, str]:
    found: dict[str, str] = admin.get(f"{core(namespace, 'resourcequotas')}/{name}").json["status"]["used"]
    return found


def refused(server: Server, namespace: str, plural: str, document: dict[str, Any]) -> str:
    """The reason of a refusal, without what is refused."""
    path = plural if plural.startswith("/") else core(namespace, plural)

    def tried() -> Answer | None:
        answer = server.admin.post(path, document, dryRun="All")
        # A kube-apiserver learns of a quota a moment after it was made.
        return answer if answer.status != 201 or not server.is_real else None

    answer = eventually(tried)
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden"), answer.body
    return answer.message.partition(" is forbidden: ")[2]


# What is limited, what is there, what is tried, and what is said of it.
CASES: dict[str, tuple[dict[str, str], list[tuple[str, dict[str, Any]]], str]] = {
    "pods": (
        {"pods": "1"},
        [("pods", pod("a")), ("pods", pod("b"))],
        "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
    ),
    "no pods": (
        {"pods": "0"},
        [("pods", pod())],
        "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0",
    ),
    "counted pods": (
        {"count/pods": "1"},
        [("pods", pod("a")), ("pods", pod("b"))],
        "exceeded quota: q, requested: count/pods=1, used: count/pods=1, limited: count/pods=1",
    ),
    "memory": (
        {"requests.memory": "1Gi"},
        [("pods", pod("a", asking(memory="768Mi"))), ("pods", pod("b", asking(memory="512Mi")))],
        "exceeded quota: q, requested: requests.memory=512Mi, used: requests.memory=768Mi,"
        " limited: requests.memory=1Gi",
    ),
    "memory by its short name, in decimal": (
        {"memory": "1G"},
        [
            ("pods", pod("a", asking(memory="600M"), asking(memory="300M"))),
            ("pods", pod("b", asking(memory="200000k"))),
        ],
        "exceeded quota: q, requested: memory=200M, used: memory=900M, limited: memory=1G",
    ),
    "cpu": (
        {"requests.cpu": "1500m", "limits.cpu": "4"},
        [
            ("pods", pod("a", asking(cpu="0.5", most_cpu="1"))),
            ("pods", pod("b", asking(cpu="1001m", most_cpu="2"))),
        ],
        "exceeded quota: q, requested: requests.cpu=1001m, used: requests.cpu=500m, limited: requests.cpu=1500m",
    ),
    "two at once": (
        {"requests.cpu": "1", "requests.memory": "1Gi", "pods": "9"},
        [("pods", pod("a", asking(cpu="2", memory="2Gi")))],
        "exceeded quota: q, requested: requests.cpu=2,requests.memory=2Gi, used: requests.cpu=0,requests.memory=0,"
        " limited: requests.cpu=1,requests.memory=1Gi",
    ),
    "init containers": (
        {"requests.memory": "1Gi"},
        [
            (
                "pods",
                pod(
                    "a",
                    asking(memory="100Mi"),
                    initContainers=[
                        {"name": "i", "image": "x", "resources": asking(memory="2Gi")},
                        {"name": "j", "image": "x", "resources": asking(memory="1Mi")},
                    ],
                ),
            )
        ],
        "exceeded quota: q, requested: requests.memory=2Gi, used: requests.memory=0, limited: requests.memory=1Gi",
    ),
    "init containers that go on": (
        {"requests.memory": "1Gi"},
        [
            (
                "pods",
                pod(
                    "a",
                    asking(memory="600Mi"),
                    initContainers=[
                        {"name": "i", "image": "x", "restartPolicy": "Always", "resources": asking(memory="500Mi")}
                    ],
                ),
            )
        ],
        "exceeded quota: q, requested: requests.memory=1100Mi, used: requests.memory=0, limited: requests.memory=1Gi",
    ),
    "not said": (
        {"limits.memory": "1Gi", "requests.cpu": "1"},
        [("pods", pod("a", asking(cpu="1"), {}))],
        "failed quota: q: must specify limits.memory for: c0,c1; requests.cpu for: c1",
    ),
    "a device": (
        {"requests.devices.kubevirt.io/kvm": "1"},
        [
            ("pods", pod("a", {"limits": {"devices.kubevirt.io/kvm": "1"}})),
            ("pods", pod("b", {"limits": {"devices.kubevirt.io/kvm": "1"}})),
        ],
        "exceeded quota: q, requested: requests.devices.kubevirt.io/kvm=1, used: requests.devices.kubevirt.io/kvm=1,"
        " limited: requests.devices.kubevirt.io/kvm=1",
    ),
    "config maps": (
        {"configmaps": "1"},
        [("configmaps", named("a")), ("configmaps", named("b"))],
        "exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1",
    ),
    "secrets": (
        {"secrets": "0"},
        [("secrets", named("a"))],
        "exceeded quota: q, requested: secrets=1, used: secrets=0, limited: secrets=0",
    ),
    "services": (
        {"services": "1", "services.nodeports": "2"},
        [("services", service("a", "NodePort", 2)), ("services", service("b", "NodePort"))],
        "exceeded quota: q, requested: services=1,services.nodeports=1, used: services=1,services.nodeports=2,"
        " limited: services=1,services.nodeports=2",
    ),
    "load balancers": (
        {"services.loadbalancers": "0"},
        [("services", service("a", "LoadBalancer"))],
        "exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0,"
        " limited: services.loadbalancers=0",
    ),
    "claims": (
        {"persistentvolumeclaims": "1"},
        [("persistentvolumeclaims", claim("a", "1Gi")), ("persistentvolumeclaims", claim("b", "1Gi"))],
        "exceeded quota: q, requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1,"
        " limited: persistentvolumeclaims=1",
    ),
    "storage": (
        {"requests.storage": "10Gi"},
        [("persistentvolumeclaims", claim("a", "6Gi")), ("persistentvolumeclaims", claim("b", "5Gi"))],
        "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=6Gi,"
        " limited: requests.storage=10Gi",
    ),
    "storage of a class": (
        {"gold.storageclass.storage.k8s.io/requests.storage": "1Gi"},
        [("persistentvolumeclaims", claim("a", "6Gi")), ("persistentvolumeclaims", claim("b", "5Gi", "gold"))],
        "exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=5Gi,"
        " used: gold.storageclass.storage.k8s.io/requests.storage=0,"
        " limited: gold.storageclass.storage.k8s.io/requests.storage=1Gi",
    ),
    "quotas": (
        {"resourcequotas": "1"},
        [("resourcequotas", {**named("z"), "spec": {"hard": {"pods": "1"}}})],
        "exceeded quota: q, requested: resourcequotas=1, used: resourcequotas=1, limited: resourcequotas=1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_exceeds_a_quota_is_refused_and_what_it_leaves_is_not(api_server: Server, case: str) -> None:
    hard, tried, reason = CASES[case]
    namespace = new_namespace(api_server.admin)
    limit(api_server, namespace, hard=hard)
    if case == "quotas" and api_server.is_real:
        # The quota counts itself, which here nobody but the test could have counted.
        api_server.admin.patch(
            f"{core(namespace, 'resourcequotas')}/q/status", {"status": {"used": {"resourcequotas": "1"}}}
        )
    *first, (plural, last) = tried
    for resource, document in first:
        api_server.admin.made(core(namespace, resource), document)
    assert refused(api_server, namespace, plural, last) == reason


@pytest.mark.parametrize("plural", ["configmaps", "secrets", "serviceaccounts", "endpoints"])
def test_objects_of_every_kind_can_be_counted(api_server: Server, namespace: str, plural: str) -> None:
    limit(api_server, namespace, hard={f"count/{plural}": "1"})
    api_server.admin.made(core(namespace, plural), named("a"))
    assert refused(api_server, namespace, plural, named("b")).startswith(
        f"exceeded quota: q, requested: count/{plural}=1"
    )


def test_custom_objects_are_counted(api_server: Server, namespace: str) -> None:
    limit(api_server, namespace, hard={"count/widgets.example.com": "1"})

    def widget(name: str) -> dict[str, Any]:
        return {"apiVersion": "example.com/v1", "kind": "Widget", **named(name), "spec": {"size": 1}}

    api_server.admin.made(widgets(namespace), widget("a"))
    assert "count/widgets.example.com=1" in refused(api_server, namespace, widgets(namespace), widget("b"))


def test_events_are_never_counted(api_server: Server, namespace: str) -> None:
    limit(api_server, namespace, hard={"count/events": "0", "pods": "1"})
    event = {**named("e"), "involvedObject": {"namespace": namespace}}
    assert api_server.admin.post(core(namespace, "events"), event).status == 201


@pytest.mark.parametrize(
    ("scopes", "counted", "free"),
    [
        pytest.param({"scopes": ["BestEffort"]}, pod(), pod("p", asking(cpu="1")), id="best effort"),
        pytest.param({"scopes": ["NotBestEffort"]}, pod("p", asking(cpu="1")), pod(), id="not best effort"),
        pytest.param({"scopes": ["Terminating"]}, pod(activeDeadlineSeconds=9), pod(), id="terminating"),
        pytest.param({"scopes": ["NotTerminating"]}, pod(), pod(activeDeadlineSeconds=9), id="not terminating"),
        pytest.param(
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}},
            pod(),
            None,
            id="no class",
        ),
        pytest.param(
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                }
            },
            pod(priorityClassName="system-node-critical"),
            pod(),
            id="a class",
        ),
    ],
)
def test_a_quota_with_scopes_counts_what_is_in_them(
    api_server: Server, namespace: str, scopes: dict[str, Any], counted: dict[str, Any], free: dict[str, Any] | None
) -> None:
    limit(api_server, namespace, hard={"pods": "0"}, **scopes)
    assert refused(api_server, namespace, "pods", counted).startswith("exceeded quota: q")
    if free is not None:
        assert api_server.admin.post(core(namespace, "pods"), free, dryRun="All").status == 201


def test_a_claim_grows_as_far_as_the_quota_goes(api_server: Server, namespace: str) -> None:
    limit(api_server, namespace, hard={"requests.storage": "10Gi"})
    path = core(namespace, "persistentvolumeclaims")
    # Only a bound claim of a class that allows it may grow.
    grows = {"metadata": {"name": f"grows-{namespace}"}, "provisioner": "example.com/x", "allowVolumeExpansion": True}
    api_server.admin.made("/apis/storage.k8s.io/v1/storageclasses", grows)
    api_server.admin.made(path, claim("a", "6Gi", f"grows-{namespace}"))
    assert api_server.admin.patch(f"{path}/a", {"spec": {"volumeName": "pv"}}).status == 200
    assert api_server.admin.patch(f"{path}/a/status", {"status": {"phase": "Bound"}}).status == 200
    bigger = {"spec": {"resources": {"requests": {"storage": "11Gi"}}}}
    answer = api_server.admin.patch(f"{path}/a", bigger, STRATEGIC)
    assert answer.status == 403
    assert answer.message.endswith(
        "exceeded quota: q, requested: requests.storage=5Gi, used: requests.storage=6Gi, limited: requests.storage=10Gi"
    )
    bigger = {"spec": {"resources": {"requests": {"storage": "9Gi"}}}}
    assert api_server.admin.patch(f"{path}/a", bigger, STRATEGIC).status == 200
    eventually(lambda: used(api_server.admin, namespace) == {"requests.storage": "9Gi"})


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hard": {"pods": "-1"}}, "spec.hard[pods]"),
        ({"hard": {"pods": "1500m"}}, "spec.hard[pods]"),
        ({"hard": {"bananas": "1"}}, "spec.hard[bananas]"),
        ({"hard": {"a b": "1"}}, "spec.hard[a b]"),
        ({"scopes": ["Nonsense"]}, "spec.scopes"),
        ({"scopes": ["BestEffort", "NotBestEffort"]}, "spec.scopes"),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "spec.scopeSelector.matchExpressions.values",
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Near"}]}},
            "spec.scopeSelector.matchExpressions.operator",
        ),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused(
    api_server: Server, namespace: str, spec: dict[str, Any], field: str
) -> None:
    answer = api_server.admin.post(core(namespace, "resourcequotas"), {**named("q"), "spec": spec})
    assert answer.status == 422, answer.body
    assert field in [cause["field"] for cause in answer.causes]


@pytest.mark.parametrize("hard", [{"pods": "many"}, {"pods": [1]}, {"pods": {}}, [], "x"])
def test_a_quota_of_other_types_is_refused(api_server: Server, namespace: str, hard: Any) -> None:
    answer = api_server.admin.post(core(namespace, "resourcequotas"), {**named("q"), "spec": {"hard": hard}})
    assert answer.status in (400, 422), answer.body


def test_kubectl_is_shown_what_is_used_of_what_there_is(api_server: Server, namespace: str) -> None:
    limit(api_server, namespace, hard={"pods": "3", "requests.memory": "1Gi", "limits.cpu": "2"})
    table = api_server.admin.get(core(namespace, "resourcequotas"), accept=TABLE).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Request", "Limit", "Age"]
    assert table["rows"][0]["cells"][:3] == ["q", "pods: 0/3, requests.memory: 0/1Gi", "limits.cpu: 0/2"]


class TestOneBox:
    """What a cluster's quota controller does, and what happens at the same time."""

    def test_the_status_follows_what_comes_ends_and_goes(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        admin.made(core(namespace, "pods"), pod("before", asking(memory="1Gi")))
        limit(embedded_server, namespace, hard={"pods": "9", "requests.memory": "9Gi", "count/pods": "9"})
        assert used(admin, namespace) == {"pods": "1", "requests.memory": "1Gi", "count/pods": "1"}
        admin.made(core(namespace, "pods"), pod("more", asking(memory="512Mi")))
        eventually(lambda: used(admin, namespace) == {"pods": "2", "requests.memory": "1536Mi", "count/pods": "2"})
        ended = {"status": {"phase": "Succeeded"}}
        assert admin.patch(f"{core(namespace, 'pods')}/before/status", ended).status == 200
        eventually(lambda: used(admin, namespace) == {"pods": "1", "requests.memory": "512Mi", "count/pods": "2"})
        for name in ("before", "more"):
            assert admin.delete(f"{core(namespace, 'pods')}/{name}", {"gracePeriodSeconds": 0}).status == 200
        eventually(lambda: used(admin, namespace) == {"pods": "0", "requests.memory": "0", "count/pods": "0"})

    def test_a_changed_quota_counts_anew(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        admin.made(config_maps(namespace), named("a"))
        limit(embedded_server, namespace, hard={"secrets": "1"})
        path = f"{core(namespace, 'resourcequotas')}/q"
        assert admin.patch(path, {"spec": {"hard": {"configmaps": "1", "secrets": None}}}).status == 200
        assert refused(embedded_server, namespace, "configmaps", named("b")).endswith("limited: configmaps=1")
        eventually(lambda: used(admin, namespace) == {"configmaps": "1"})
        assert admin.delete(path).status == 200
        assert admin.post(config_maps(namespace), named("b")).status == 201

    def test_a_status_that_somebody_else_writes_decides_nothing(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        limit(embedded_server, namespace, hard={"configmaps": "1"})
        path = f"{core(namespace, 'resourcequotas')}/q/status"
        assert admin.patch(path, {"status": {"used": {"configmaps": "7"}}}).status == 200
        assert admin.post(config_maps(namespace), named("a")).status == 201
        eventually(lambda: used(admin, namespace) == {"configmaps": "1"})

    @pytest.mark.parametrize("rounds", range(3))
    def test_of_many_at_the_same_time_exactly_as_many_pass_as_there_is_room(
        self, embedded_server: Server, rounds: int
    ) -> None:
        namespace = new_namespace(embedded_server.admin)
        limit(embedded_server, namespace, hard={"configmaps": "7", "count/configmaps": "9"})

        def create(number: int) -> int:
            return embedded_server.admin.post(config_maps(namespace), named(f"c{number}")).status

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(create, range(40)))
        assert sorted(set(answers)) == [201, 403]
        assert answers.count(201) == 7
        eventually(lambda: used(embedded_server.admin, namespace)["configmaps"] == "7")

    def test_what_a_refused_or_tried_write_had_taken_is_given_back(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        limit(embedded_server, namespace, hard={"configmaps": "2"})
        admin.made(config_maps(namespace), named("a"))
        for _ in range(5):
            assert admin.post(config_maps(namespace), named("a")).status == 409
            assert admin.post(config_maps(namespace), named("b"), dryRun="All").status == 201
        assert admin.post(config_maps(namespace), named("b")).status == 201
        assert admin.post(config_maps(namespace), named("c")).status == 403

    def test_what_is_used_is_known_from_the_first_request_after_a_restart(self, tmp_path: Path) -> None:
        running = contextmanager(embedded)
        with running(tmp_path) as server:
            limit(server, "default", hard={"secrets": "1"})
            server.admin.made(core("default", "secrets"), named("a"))
        with running(tmp_path) as server:
            answer = server.admin.post(core("default", "secrets"), named("b"))
            assert answer.message.endswith(
                "exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1"
            )

    def test_a_namespace_goes_in_spite_of_its_quota(self, embedded_server: Server) -> None:
        admin = embedded_server.admin
        namespace = new_namespace(admin)
        limit(embedded_server, namespace, hard={"configmaps": "1"})
        admin.made(config_maps(namespace), named("a"))
        assert admin.delete(f"/api/v1/namespaces/{namespace}").status == 200
        eventually(lambda: admin.get(f"/api/v1/namespaces/{namespace}").status == 404)


def ranged(server: Server, namespace: str, **item: Any) -> dict[str, Any]:
    """Make a limit range of one item; a kube-apiserver learns of it a moment later."""
    made = server.admin.made(core(namespace, "limitranges"), {**named("l"), "spec": {"limits": [item]}})
    return dict(made["spec"]["limits"][0])


# What a limit range says, what is tried, and what is said of it.
BOUNDS: dict[str, tuple[dict[str, Any], str, dict[str, Any], str]] = {
    "too much": (
        {"type": "Container", "max": {"memory": "1Gi"}},
        "pods",
        pod("p", asking(memory="2Gi", most_memory="2Gi")),
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
    ),
    "too little": (
        {"type": "Container", "min": {"cpu": "100m"}},
        "pods",
        pod("p", asking(cpu="50m")),
        "minimum cpu usage per Container is 100m, but request is 50m",
    ),
    "a ratio": (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        "pods",
        pod("p", asking(cpu="1", most_cpu="3")),
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
    "a Pod": (
        {"type": "Pod", "max": {"cpu": "1"}},
        "pods",
        pod("p", asking(cpu="600m", most_cpu="600m"), asking(cpu="600m", most_cpu="600m")),
        "maximum cpu usage per Pod is 1, but limit is 1200m",
    ),
    "a Pod that does not say": (
        {"type": "Pod", "max": {"cpu": "1"}},
        "pods",
        pod(),
        "maximum cpu usage per Pod is 1.  No limit is specified",
    ),
    "a small Pod": (
        {"type": "Pod", "min": {"memory": "1Gi"}},
        "pods",
        pod("p", asking(memory="1Mi")),
        "minimum memory usage per Pod is 1Gi, but request is 1Mi",
    ),
    "a large claim": (
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
        "persistentvolumeclaims",
        claim("c", "2Gi"),
        "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi",
    ),
    "a small claim": (
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
        "persistentvolumeclaims",
        claim("c", "1Mi"),
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
    ),
    "an init container": (
        {"type": "Container", "max": {"memory": "1Gi"}},
        "pods",
        pod(initContainers=[{"name": "i", "image": "x", "resources": asking(memory="2Gi", most_memory="2Gi")}]),
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
    ),
}


@pytest.mark.parametrize("case", BOUNDS)
def test_what_is_out_of_bounds_is_refused(api_server: Server, namespace: str, case: str) -> None:
    item, plural, document, reason = BOUNDS[case]
    ranged(api_server, namespace, **item)
    assert refused(api_server, namespace, plural, document) == reason


def test_a_limit_range_completes_itself_and_the_pods(api_server: Server, namespace: str) -> None:
    item = ranged(
        api_server,
        namespace,
        type="Container",
        max={"cpu": "2", "memory": "1Gi"},
        min={"cpu": "10m", "ephemeral-storage": "1Mi"},
        default={"cpu": "1"},
        defaultRequest={"memory": "64Mi"},
    )
    assert item["default"] == {"cpu": "1", "memory": "1Gi"}
    assert item["defaultRequest"] == {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Mi"}

    def completed() -> dict[str, Any] | None:
        document = pod("p", {}, asking(cpu="100m"), {"limits": {"memory": "512Mi"}})
        made: dict[str, Any] = api_server.admin.post(core(namespace, "pods"), document, dryRun="All").json
        return made if made["spec"]["containers"][0].get("resources") else None

    made = eventually(completed)
    first, second, third = (container["resources"] for container in made["spec"]["containers"])
    assert first == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Mi"},
    }
    assert second["requests"]["cpu"] == "100m"
    assert third == {
        "limits": {"cpu": "1", "memory": "512Mi"},
        "requests": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "1Mi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, ephemeral-storage, memory request for container c0; cpu, memory limit for"
        " container c0; ephemeral-storage, memory request for container c1; cpu, memory limit for container c1;"
        " cpu, ephemeral-storage request for container c2; cpu limit for container c2"
    )


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"type": "Nonsense"}, "spec.limits[0].type"),
        ({"type": "Pod", "default": {"cpu": "1"}}, "spec.limits[0].default"),
        ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, "spec.limits[0].min[cpu]"),
        ({"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}, "spec.limits[0].default[cpu]"),
        ({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}, "spec.limits[0].maxLimitRequestRatio[cpu]"),
        ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, "spec.limits[0].limits"),
    ],
)
def test_a_limit_range_that_makes_no_sense_is_refused(
    api_server: Server, namespace: str, item: dict[str, Any], field: str
) -> None:
    answer = api_server.admin.post(core(namespace, "limitranges"), {**named("l"), "spec": {"limits": [item]}})
    assert answer.status == 422, answer.body
    assert field in [cause["field"] for cause in answer.causes]

# Tests: kvedge/standalone/apiserver/admission/pod_security_rules.py
# Tests: kvedge/standalone/apiserver/admission/quota_usage.py, kvedge/standalone/apiserver/kinds/rules/limit_rules.py
"""What judges Pods: no shape that a decoded Pod can have breaks a check, and twice as many containers cost twice."""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.pod_security_rules import Level, refusal, violations
from kvedge.standalone.apiserver.admission.quota_usage import in_scopes, missing_words, usage_of
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.rules.limit_rules import add_defaults, pod_faults
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex
from kvedge.standalone.apiserver.wire.api_errors import ApiError
from kvedge.standalone.apiserver.writing.object_shape import shape
from tests.support.builders import pod_document

POD = KindIndex(BUILT_IN).at("", "v1", "pods")
ODD: list[Any] = [None, "x", 1, True, [], {}, ["x"], [None], [{}], {"a": 1}, {"a": {}}, {"type": 1}]
RULES = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
OF_POD = {
    "securityContext": ("seLinuxOptions", "windowsOptions", "seccompProfile", "appArmorProfile", "sysctls"),
    "affinity": ("podAffinity", "podAntiAffinity"),
    "resources": ("requests", "limits"),
    "containers": (),
    "initContainers": (),
    "ephemeralContainers": (),
    "volumes": (),
}
OF_CONTAINER = {
    "securityContext": ("capabilities", "seLinuxOptions", "windowsOptions", "seccompProfile", "procMount"),
    "lifecycle": ("postStart", "preStop"),
    "livenessProbe": ("httpGet", "tcpSocket"),
    "readinessProbe": ("httpGet",),
    "startupProbe": ("tcpSocket",),
    "ports": (),
    "resources": ("requests", "limits"),
}
DEEPER = ("httpGet", "tcpSocket", "add", "drop", "hostProcess", "cpu", *RULES)
RANGE: JsonObject = {
    "spec": {
        "limits": [
            {"type": "Container", "default": {"cpu": "1"}, "min": {"cpu": "1m"}, "max": {"memory": "1Gi"}},
            {"type": "Pod", "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "2"}},
        ]
    }
}


def pod(*containers: JsonObject, **spec: Any) -> JsonObject:
    return pod_document(*(containers or [{"name": "c", "image": "x"}]), metadata={"namespace": "n"}, **spec)


def values(fields: tuple[str, ...]) -> Iterator[Any]:
    """Odd values, at the place itself and at two levels below it."""
    yield from ODD
    for field, value in itertools.product(fields, ODD):
        yield {field: value}
        for deeper in DEEPER:
            yield {field: {deeper: value}}


def odd_pods() -> Iterator[JsonObject]:
    for field, below in OF_POD.items():
        for value in values(below):
            yield pod(**{field: value})
    for field, below in OF_CONTAINER.items():
        for value in values(below):
            yield pod({"name": "c", "image": "x", field: value})


def decoded(document: JsonObject) -> JsonObject | None:
    assert POD is not None
    try:
        return shape(POD, copy.deepcopy(document)).obj
    except ApiError:
        return None


JUDGES: dict[str, Callable[[JsonObject], object]] = {
    "baseline": lambda obj: refusal(Level.BASELINE, violations(Level.BASELINE, obj)),
    "restricted": lambda obj: refusal(Level.RESTRICTED, violations(Level.RESTRICTED, obj)),
    "usage": lambda obj: usage_of("pods", obj),
    "scopes": lambda obj: [
        in_scopes({"scopes": [name]}, "pods", obj)
        for name in ("CrossNamespacePodAffinity", "BestEffort", "Terminating")
    ],
    "words": lambda obj: missing_words(obj, ["limits.cpu", "requests.memory"]),
    "limits": lambda obj: (add_defaults([RANGE], obj), pod_faults(RANGE, obj)),
}


@pytest.mark.parametrize("judge", JUDGES)
def test_no_shape_of_a_pod_breaks_a_check(judge: str) -> None:
    judged = 0
    for document in odd_pods():
        obj = decoded(document)
        if obj is not None:
            JUDGES[judge](obj)
            judged += 1
    assert judged > 500


@pytest.mark.parametrize("judge", JUDGES)
def test_many_more_containers_take_no_more_time_each(judge: str) -> None:
    context = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN", "BPF"]}, "seLinuxOptions": {"type": "spc_t"}}
    ports = [{"containerPort": 1, "hostPort": 1}]

    def seconds(count: int) -> float:
        several = [
            {"name": f"c{number}", "image": "x", "securityContext": context, "ports": ports, "resources": {}}
            for number in range(count)
        ]
        best = 1e9
        for _ in range(3):
            obj = copy.deepcopy(pod(*several))
            began = time.process_time()
            JUDGES[judge](obj)
            best = min(best, time.process_time() - began)
        return best

    # Eight times as many take 64 times as long where the cost is quadratic. CPU time alone still doubles on a machine
    # that does much else, so the bound lies far from both; what is added is for a clock that ticks.
    assert seconds(8000) <= 24 * seconds(1000) + 0.02


def test_what_is_not_said_is_told_of_the_first_containers_only() -> None:
    several = [{"name": f"c{number:04}", "image": "x"} for number in range(5000)]
    told = missing_words(pod(*several), ["limits.cpu"])
    assert told.startswith("limits.cpu for: c0000,c0001,")
    assert told.endswith(" and 4980 more")
    assert len(told) < 200

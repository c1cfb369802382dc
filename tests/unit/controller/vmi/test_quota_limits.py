"""Limits that launcher Pods get where a quota wants some said."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

import pytest

from kvedge.controller.vmi.quota_limits import create_launcher, find_wanted, read_ratio, with_limits
from kvedge.kube.errors import Forbidden, KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.core import Namespace, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance

CPU_AND_MEMORY = (
    'pods "p" is forbidden: failed quota: q: must specify limits.cpu for: compute; limits.memory for: compute'
)


def vmi(**domain: JsonObject) -> VirtualMachineInstance:
    meta = {"name": "vm", "namespace": "n"}
    return decode(VirtualMachineInstance, {"metadata": meta, "spec": {"domain": {"cpu": {"cores": 2}, **domain}}})


def pod(**limits: str) -> Pod:
    requests = {"cpu": "200m", "memory": "300Mi"}
    containers = [
        {"name": "compute", "resources": {"requests": requests, "limits": {"devices.kubevirt.io/kvm": "1", **limits}}},
        {"name": "beside", "resources": {"requests": {"cpu": "10m", "memory": "200M"}}},
    ]
    return decode(Pod, {"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": containers}})


class Server:
    """Refuses Pods whose containers lack limits, in the words that it is given."""

    def __init__(self, words: str, labels: dict[str, str] | None = None) -> None:
        self.words = words
        self.labels = labels or {}
        self.tried: list[Pod] = []

    def create(self, pod: Pod) -> Pod:
        self.tried.append(pod)
        if len(self.tried) == 1:
            raise Forbidden(403, "Forbidden", self.words)
        return pod

    def get(self, kind: type[Namespace], namespace: str, name: str) -> Namespace:
        assert (kind, namespace, name) == (Namespace, "", "n")
        return decode(Namespace, {"metadata": {"name": name, "labels": self.labels}})


def created(server: Server, wanted: Pod) -> Pod:
    return create_launcher(cast(KubeClient, server), wanted, vmi())


def test_a_quota_that_wants_both_gets_both() -> None:
    compute, beside = created(Server(CPU_AND_MEMORY), pod()).spec.containers
    mebibyte = 1 << 20
    assert compute.resources.limits == {"devices.kubevirt.io/kvm": "1", "cpu": "2", "memory": str(600 * mebibyte)}
    assert compute.resources.requests == {"cpu": "200m", "memory": "300Mi"}
    assert beside.resources.limits == {"cpu": "100m", "memory": "200M"}


def test_what_is_not_wanted_stays_unlimited() -> None:
    compute, _ = created(Server("failed quota: q: must specify limits.memory for: compute"), pod()).spec.containers
    assert "cpu" not in compute.resources.limits
    assert "memory" in compute.resources.limits


def test_limits_that_are_said_stay() -> None:
    compute, _ = created(Server(CPU_AND_MEMORY), pod(memory="400Mi")).spec.containers
    assert compute.resources.limits["memory"] == "400Mi"
    assert compute.resources.limits["cpu"] == "2"


def test_a_namespaces_label_sets_how_much() -> None:
    server = Server(CPU_AND_MEMORY, {"alpha.kubevirt.io/auto-memory-limits-ratio": "1.2"})
    compute, _ = created(server, pod()).spec.containers
    assert compute.resources.limits["memory"] == str(360 << 20)


@pytest.mark.parametrize("words", ["exceeded quota: q, requested: limits.cpu=2", "failed quota: q: must specify pods"])
def test_another_refusal_stays_one(words: str) -> None:
    server = Server(words)
    with pytest.raises(Forbidden):
        created(server, pod())
    assert len(server.tried) == 1


@pytest.mark.parametrize("text", ["", "0.5", "-3", "much", "1e9", "٣", "1." + "0" * 40])
def test_a_ratio_that_cannot_be_is_two(text: str) -> None:
    assert read_ratio(text) == 2


def test_a_request_above_the_vcpus_is_the_limit() -> None:
    one = decode(
        Pod,
        {"spec": {"containers": [{"name": "compute", "resources": {"requests": {"cpu": "2500m", "memory": "1Mi"}}}]}},
    )
    limits = with_limits(one, vmi(), {"cpu"}, Fraction(2)).spec.containers[0].resources.limits
    assert limits == {"cpu": "3"}


def test_a_guest_that_may_grow_has_limits_for_what_it_has() -> None:
    memory: JsonObject = {"guest": "1Gi", "maxGuest": "4Gi"}
    growing = decode(
        VirtualMachineInstance,
        {"spec": {"architecture": "amd64", "domain": {"cpu": {"sockets": 1, "maxSockets": 3}, "memory": memory}}},
    )
    compute, _ = with_limits(pod(), growing, {"cpu", "memory"}, Fraction(2)).spec.containers
    assert (compute.resources.limits["cpu"], compute.resources.limits["memory"]) == ("1", str(600 << 20))


def test_older_words_are_understood() -> None:
    error = KubeError(403, "Forbidden", "failed quota: q: must specify limits.cpu,limits.memory")
    assert find_wanted(error) == {"cpu", "memory"}

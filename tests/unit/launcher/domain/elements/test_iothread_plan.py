"""IO threads of disks."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.iothread_plan import IoThreadPlan, plan_io_threads
from tests.unit.launcher.domain.vmis import context, vmi


def _plan(disks: str, policy: str | None = None, **domain: Any) -> IoThreadPlan:
    """`disks`: one letter each: v virtio, V virtio with a thread of its own, s sata."""
    entries = [
        {"name": f"d{index}", "disk": {"bus": "sata" if kind == "s" else "virtio"}, "dedicatedIOThread": kind == "V"}
        for index, kind in enumerate(disks)
    ]
    if policy is not None:
        domain["ioThreadsPolicy"] = policy
    return plan_io_threads(vmi({"devices": {"disks": entries}, **domain}), context())


@pytest.mark.parametrize(
    ("disks", "policy", "cpu", "count", "threads"),
    [
        ("vv", None, "1", 0, {}),
        ("vvs", "shared", "1", 1, {"d0": 1, "d1": 1}),
        ("vV", None, "1", 1, {"d1": 1}),
        ("vVv", "shared", "1", 2, {"d0": 1, "d1": 2, "d2": 1}),
        ("ss", "shared", "4", 0, {}),
        ("vvv", "auto", "4", 3, {"d0": 1, "d1": 2, "d2": 3}),
        ("vvv", "auto", "1", 2, {"d0": 1, "d1": 2, "d2": 1}),
        ("vvvV", "auto", "1", 2, {"d0": 1, "d1": 1, "d2": 1, "d3": 2}),
        ("vVVV", "auto", "1", 4, {"d0": 1, "d1": 2, "d2": 3, "d3": 4}),
        ("vvvvv", "auto", "1500m", 4, {"d0": 1, "d1": 2, "d2": 3, "d3": 4, "d4": 1}),
    ],
    ids=[
        "no policy, no thread",
        "shared: one, for virtio only",
        "a dedicated one needs no policy",
        "dedicated beside shared",
        "no virtio disk, no thread",
        "auto: one each while CPUs last",
        "auto: two per CPU, in turn",
        "auto: dedicated ones count",
        "auto: one is always left for the others",
        "auto: part of a CPU counts as one",
    ],
)
def test_threads_follow_the_policy(
    disks: str, policy: str | None, cpu: str, count: int, threads: dict[str, int]
) -> None:
    assert _plan(disks, policy, resources={"requests": {"cpu": cpu}}) == IoThreadPlan(count, threads)


def test_auto_without_a_cpu_request_counts_the_guests_cpus() -> None:
    assert _plan("vvvvv", "auto", cpu={"sockets": 2}).count == 4


def test_a_pool_is_shared_by_all_disks_where_libvirt_can() -> None:
    instance = vmi({"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 3}})
    assert plan_io_threads(instance, context(libvirt_version=10_000_000)) == IoThreadPlan(3, pool=(1, 2, 3))


def test_a_pool_is_refused_where_libvirt_cannot() -> None:
    instance = vmi({"ioThreadsPolicy": "supplementalPool", "ioThreads": {"supplementalPoolThreadCount": 3}})
    with pytest.raises(ConversionError, match=r"ioThreadsPolicy: needs libvirt 10\.0, and this node has 9\.0"):
        plan_io_threads(instance, context())


@pytest.mark.parametrize("threads", [None, {}, {"supplementalPoolThreadCount": 0}])
def test_a_pool_without_a_size_is_refused(threads: dict[str, int] | None) -> None:
    domain = {"ioThreadsPolicy": "supplementalPool"} | ({} if threads is None else {"ioThreads": threads})
    with pytest.raises(ConversionError, match="supplementalPoolThreadCount"):
        plan_io_threads(vmi(domain), context(libvirt_version=11_000_000))

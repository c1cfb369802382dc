"""What goes out of a cluster with a node that leaves it, and what is told."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.appliance.cluster.leave_plan import Others, plan_leaving, plan_node
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_manifest import NodeCapabilities, node_patch
from kvedge.resources.meta import ObjectMeta

EMULATED = Accelerator(True, "as the test has it")


@pytest.mark.parametrize("purge", [False, True], ids=["uninstall", "purge"])
def test_while_another_server_answers_nothing_goes(purge: bool) -> None:
    plan = plan_leaving(Others(("two (192.0.2.2)", "three (192.0.2.3)"), ("four",), ("agent",)), purge=purge)
    assert (plan.calls, plan.registration) == (False, False)
    assert plan.told.endswith("as it serves on two (192.0.2.2), three (192.0.2.3)")


@pytest.mark.parametrize(
    "others",
    [Others(), Others(nodes=("agent",)), Others(silent=("two (192.0.2.2)",))],
    ids=["nobody", "agents only", "a server that does not answer"],
)
def test_with_the_last_server_the_calls_go_and_webhooks_stay(others: Others) -> None:
    plan = plan_leaving(others, purge=False)
    assert (plan.calls, plan.registration) == (True, False)
    assert plan.told.startswith("kept in the cluster: webhooks, policies and rights of kvedge, and all VMs.")
    assert "VMs cannot be created, changed or started" in plan.told
    assert ("No answer came from two (192.0.2.2)" in plan.told) == bool(others.silent)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        pytest.param(
            Others(nodes=("a", "b")),
            "as kvedge is on a, b, or was not uninstalled there: uninstall kvedge",
            id="agents",
        ),
        pytest.param(Others(silent=("two",)), "as no answer came from two: uninstall", id="a silent server"),
        pytest.param(Others((), ("two",), ("a",)), "uninstalled there and no answer came from two:", id="both"),
    ],
)
def test_what_those_who_stay_need_is_not_purged_but_the_calls_are(others: Others, why: str) -> None:
    plan = plan_leaving(others, purge=True)
    assert (plan.calls, plan.registration) == (True, False)
    assert why in plan.told
    assert "run `uninstall --purge` here again" in plan.told
    assert "gone for good, say so with `kubectl label node NAME kubevirt.io/schedulable-`" in plan.told


def test_the_last_one_takes_all_but_vms_out() -> None:
    plan = plan_leaving(Others(), purge=True)
    assert (plan.calls, plan.registration) == (True, True)
    assert plan.told.startswith("kept in the cluster: the kinds and their VMs, and the namespace kvedge-system.")


def test_a_node_that_leaves_loses_all_that_its_handler_has_written_and_nothing_else() -> None:
    capabilities = NodeCapabilities("Skylake", ["Skylake", "qemu64"], ["avx"], ["q35"])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    written = node_patch(
        ObjectMeta(), capabilities, EMULATED, "192.0.2.1:8186", now, schedulable=True, refusal="too old"
    )
    labels, annotations = written["metadata"]["labels"], written["metadata"]["annotations"]
    theirs = {"kubernetes.io/hostname": "n1", "rack": "7", "kubevirt.io/of-somebody": "x"}
    assert plan_node({**theirs, **labels}, {**theirs, **annotations}) == {
        "metadata": {"labels": dict.fromkeys(labels), "annotations": dict.fromkeys(annotations)}
    }
    assert plan_node(theirs, theirs) is None

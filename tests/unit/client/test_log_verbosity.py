"""Levels of logs in the KubeVirt object: what is there, and the patch that changes it."""

from __future__ import annotations

from kvedge.client.log_verbosity import make_patch, read_verbosity


def levels(**found: object) -> dict[str, object]:
    return {"spec": {"configuration": {"developerConfiguration": {"logVerbosity": found}}}}


def test_what_nobody_has_said_is_kubevirts_default() -> None:
    assert set(read_verbosity({"spec": {}}).values()) == {2}
    found = read_verbosity(levels(virtAPI=7, nodeVerbosity={"node1": 5}))
    assert (found["virt-api"], found["virt-handler"]) == (7, 2)


def test_a_level_is_set_and_the_others_stay() -> None:
    assert make_patch({"virt-handler": 7}, reset=False) == levels(virtHandler=7)


def test_a_reset_takes_all_others_away() -> None:
    components = ("virtAPI", "virtController", "virtLauncher", "virtOperator", "virtSynchronizationController")
    rest = dict.fromkeys((*components, "nodeVerbosity"))
    assert make_patch({"virt-handler": 0}, reset=True) == levels(virtHandler=0, **rest)

"""start, stop and restart: the table of KubeVirt's run strategies, written out once more."""

from __future__ import annotations

import pytest

from kvedge.api.subresources.power_rules import (
    Ask,
    Call,
    Effect,
    Nothing,
    OnlySooner,
    Presence,
    Refuse,
    Run,
    effect_of,
    presence_of,
)
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceStatus

START, STOP, AGAIN = Ask(start=True), Ask(stop=True), Ask(stop=True, start=True)
ON, OFF = Run(True), Run(False)
RUNNING, NOT_RUNNING = Refuse("VM is already running"), Refuse("VM is not running")
NO_RUN = Refuse("VM is not running: Halted")
SOONER = OnlySooner("Halted only supports manual stop requests with a shorter graceperiod")
FAILED = Refuse("RerunOnFailure does not support starting VM from failed state")


def no_start(strategy: str) -> Refuse:
    return Refuse(f"{strategy} does not support manual start requests")


def no_restart(strategy: str) -> Refuse:
    return Refuse(f"RunStategy {strategy} does not support manual restart requests")


STRATEGIES = ("Always", "RerunOnFailure", "Manual", "Halted", "Once", "WaitAsReceiver")
PRESENCES: tuple[Presence, ...] = ("none", "live", "succeeded", "failed")
EXPECTED: dict[tuple[Call, str], list[Effect]] = {
    # call, strategy: none, live, succeeded, failed
    ("start", "Always"): [no_start("Always"), RUNNING, no_start("Always"), no_start("Always")],
    ("start", "RerunOnFailure"): [START, RUNNING, AGAIN, FAILED],
    ("start", "Manual"): [START, RUNNING, AGAIN, AGAIN],
    ("start", "Halted"): [ON, RUNNING, ON, ON],
    ("start", "Once"): [no_start("Once"), RUNNING, no_start("Once"), no_start("Once")],
    ("start", "WaitAsReceiver"): [Nothing(), RUNNING, Nothing(), Nothing()],
    ("stop", "Always"): [OFF, OFF, OFF, OFF],
    ("stop", "RerunOnFailure"): [NOT_RUNNING, STOP, NOT_RUNNING, NOT_RUNNING],
    ("stop", "Manual"): [NOT_RUNNING, STOP, NOT_RUNNING, NOT_RUNNING],
    ("stop", "Halted"): [NOT_RUNNING, SOONER, NOT_RUNNING, NOT_RUNNING],
    ("stop", "Once"): [OFF, OFF, OFF, OFF],
    ("stop", "WaitAsReceiver"): [OFF, OFF, OFF, OFF],
    ("restart", "Always"): [NO_RUN, AGAIN, AGAIN, AGAIN],
    ("restart", "RerunOnFailure"): [NO_RUN, AGAIN, AGAIN, AGAIN],
    ("restart", "Manual"): [NO_RUN, AGAIN, AGAIN, AGAIN],
    ("restart", "Halted"): [no_restart("Halted")] * 4,
    ("restart", "Once"): [no_restart("Once")] * 4,
    ("restart", "WaitAsReceiver"): [NO_RUN, AGAIN, AGAIN, AGAIN],
}
CALLS: tuple[Call, ...] = ("start", "stop", "restart")


@pytest.mark.parametrize("presence", PRESENCES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("call", CALLS)
def test_the_table_says(call: Call, strategy: str, presence: Presence) -> None:
    assert effect_of(call, strategy, presence) == EXPECTED[call, strategy][PRESENCES.index(presence)]


def test_a_strategy_that_does_not_exist_is_refused() -> None:
    assert effect_of("start", "Sometimes", "none") == Refuse("unknown runstrategy: Sometimes")


@pytest.mark.parametrize(
    ("phase", "call", "expected"),
    [
        ("", "start", "none"),
        ("Unknown", "start", "none"),
        ("Pending", "start", "live"),
        ("Running", "start", "live"),
        ("Succeeded", "start", "succeeded"),
        ("Failed", "start", "failed"),
        ("", "stop", "live"),
        ("Unknown", "restart", "live"),
    ],
)
def test_a_run_without_a_phase_does_not_block_a_start(phase: str, call: Call, expected: Presence) -> None:
    vmi = VirtualMachineInstance(status=VirtualMachineInstanceStatus(phase=phase))  # type: ignore[arg-type]
    assert presence_of(vmi, call) == expected


def test_without_a_run_there_is_none() -> None:
    assert presence_of(None, "stop") == "none"

"""What start, stop and restart do: ONE table, by run strategy and by what runs.

Called by power_calls.py. Pure. Words and codes are KubeVirt's, its spelling included: clients match on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from kvedge.resources.types.vmi import VirtualMachineInstance

Call = Literal["start", "stop", "restart"]
# What there is of the VM's run: nothing, one that lives, one that ended well, one that failed.
Presence = Literal["none", "live", "succeeded", "failed"]


class Refuse(Struct, frozen=True):
    """409 with this text."""

    detail: str


class Run(Struct, frozen=True):
    """Rewrite the spec: runStrategy Always or Halted, or `running`, whichever the VM has."""

    on: bool


class Ask(Struct, frozen=True):
    """Put requests into the status, for the controller: stop this run, start a new one, or one after the other."""

    stop: bool = False
    start: bool = False


class Nothing(Struct, frozen=True):
    """Accepted, and nothing changes."""


class OnlySooner(Struct, frozen=True):
    """The run ends anyway: accepted only with a grace period shorter than the one it has; else 409 with this text."""

    otherwise: str


Effect = Refuse | Run | Ask | Nothing | OnlySooner

ALREADY_RUNNING: Final = Refuse("VM is already running")
_NOT_RUNNING: Final = Refuse("VM is not running")
_NO_RUN_TO_RESTART: Final = Refuse("VM is not running: Halted")
_NO_START_AFTER_FAILURE: Final = Refuse("RerunOnFailure does not support starting VM from failed state")
_SOONER: Final = OnlySooner("Halted only supports manual stop requests with a shorter graceperiod")
_START: Final = Ask(start=True)
_STOP: Final = Ask(stop=True)
_AGAIN: Final = Ask(stop=True, start=True)


def _no_start(strategy: str) -> Refuse:
    return Refuse(f"{strategy} does not support manual start requests")


def _no_restart(strategy: str) -> Refuse:
    return Refuse(f"RunStategy {strategy} does not support manual restart requests")


_PRESENCES: Final[tuple[Presence, ...]] = ("none", "live", "succeeded", "failed")
_ROWS: Final[Mapping[tuple[Call, str], tuple[Effect, Effect, Effect, Effect]]] = {
    # call, strategy               none                  live       succeeded             failed
    ("start", "Always"): (_no_start("Always"), ALREADY_RUNNING, _no_start("Always"), _no_start("Always")),
    ("start", "RerunOnFailure"): (_START, ALREADY_RUNNING, _AGAIN, _NO_START_AFTER_FAILURE),
    ("start", "Manual"): (_START, ALREADY_RUNNING, _AGAIN, _AGAIN),
    ("start", "Halted"): (Run(True), ALREADY_RUNNING, Run(True), Run(True)),
    ("start", "Once"): (_no_start("Once"), ALREADY_RUNNING, _no_start("Once"), _no_start("Once")),
    ("start", "WaitAsReceiver"): (Nothing(), ALREADY_RUNNING, Nothing(), Nothing()),
    ("stop", "Always"): (Run(False), Run(False), Run(False), Run(False)),
    ("stop", "RerunOnFailure"): (_NOT_RUNNING, _STOP, _NOT_RUNNING, _NOT_RUNNING),
    ("stop", "Manual"): (_NOT_RUNNING, _STOP, _NOT_RUNNING, _NOT_RUNNING),
    ("stop", "Halted"): (_NOT_RUNNING, _SOONER, _NOT_RUNNING, _NOT_RUNNING),
    ("stop", "Once"): (Run(False), Run(False), Run(False), Run(False)),
    ("stop", "WaitAsReceiver"): (Run(False), Run(False), Run(False), Run(False)),
    ("restart", "Always"): (_NO_RUN_TO_RESTART, _AGAIN, _AGAIN, _AGAIN),
    ("restart", "RerunOnFailure"): (_NO_RUN_TO_RESTART, _AGAIN, _AGAIN, _AGAIN),
    ("restart", "Manual"): (_NO_RUN_TO_RESTART, _AGAIN, _AGAIN, _AGAIN),
    ("restart", "Halted"): (_no_restart("Halted"),) * 4,
    ("restart", "Once"): (_no_restart("Once"),) * 4,
    ("restart", "WaitAsReceiver"): (_NO_RUN_TO_RESTART, _AGAIN, _AGAIN, _AGAIN),
}


def presence_of(vmi: VirtualMachineInstance | None, call: Call) -> Presence:
    """What there is of the run, as this call sees it."""
    if vmi is None:
        return "none"
    if vmi.status.phase == "Succeeded":
        return "succeeded"
    if vmi.status.phase == "Failed":
        return "failed"
    if call == "start" and vmi.status.phase in ("", "Unknown"):
        # Such a run does not keep a VM from being started.
        return "none"
    return "live"


def effect_of(call: Call, strategy: str, presence: Presence) -> Effect:
    """The table's entry; a strategy that does not exist is refused as KubeVirt refuses it."""
    row = _ROWS.get((call, strategy))
    if row is None:
        return Refuse(f"unknown runstrategy: {strategy}")
    return row[_PRESENCES.index(presence)]

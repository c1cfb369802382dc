"""What has to be done so that a running domain has the NICs that the VMI wants, with the link state that it wants.

Called by `nic_keeper`. Pure: no clock, no libvirt. A NIC is taken from the guest only when the VMI says that it is to
be absent. A NIC that the handler could not prepare just now stays. A virtual function of a card needs no preparation:
the guest gives it back before it moves, and gets one of the node where it then is.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.libvirt.domain_facts import DomainNic
from kvedge.resources.names import SWITCHED_NETWORKS


class NicAction(Enum):
    """What is done to one NIC."""

    DETACH = "detach"
    ATTACH = "attach"
    LINK = "link"


class NicStep(NamedTuple):
    """One change; `down` is the link state that is wanted, of a NIC that stays."""

    action: NicAction
    name: str
    down: bool = False


class NicWishes(NamedTuple):
    """The state that each of the VMI's interfaces is to have, by name, those whose taps the handler has made, and those
    that are functions; and the networks that NICs were taken to while the guest ran, empty for one on its way.
    """

    states: dict[str, str]
    prepared: frozenset[str]
    functions: frozenset[str] = frozenset()
    switched: Mapping[str, str] = MappingProxyType({})


def read_nic_wishes(document: bytes, prepared: Iterable[str]) -> NicWishes:
    """What a VMI wants of its NICs, of its JSON: its types would stay in the launcher for the guest's whole life.

    Raises:
        BadRequest: when the document is no VMI.
    """
    try:
        vmi = json.loads(document or b"{}")
        spec = vmi.get("spec") or {}
        interfaces = ((spec.get("domain") or {}).get("devices") or {}).get("interfaces") or []
        states = {str(interface["name"]): str(interface.get("state") or "up") for interface in interfaces}
        functions = frozenset(str(interface["name"]) for interface in interfaces if interface.get("sriov") is not None)
        marks = (vmi.get("metadata") or {}).get("annotations") or {}
        switched = {str(name): str(where) for name, where in json.loads(marks.get(SWITCHED_NETWORKS) or "{}").items()}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise BadRequest("the VMI", f"cannot be read: {error!r}") from error
    return NicWishes(states, frozenset(prepared), functions, switched)


def find_switched(wishes: NicWishes, known: Mapping[str, str]) -> set[str]:
    """The NICs that are on another network than was known."""
    return {name for name, where in wishes.switched.items() if where and where != known.get(name)}


def plan_nics(wishes: NicWishes, present: Iterable[DomainNic], refreshed: Container[str] = ()) -> list[NicStep]:
    """All steps, those that free something first. The links of `refreshed` NICs go down; they are put up by the next
    plan."""
    steps = _steps(wishes, {nic.name: nic for nic in present}, refreshed)
    return sorted(steps, key=lambda step: list(NicAction).index(step.action))


def _steps(wishes: NicWishes, present: dict[str, DomainNic], refreshed: Container[str]) -> Iterator[NicStep]:
    for name, state in wishes.states.items():
        nic = present.get(name)
        if nic is None:
            if state != "absent" and (name in wishes.prepared or name in wishes.functions):
                yield NicStep(NicAction.ATTACH, name)
        elif state == "absent":
            yield NicStep(NicAction.DETACH, name)
        elif not nic.is_function and nic.is_down != (state == "down"):
            yield NicStep(NicAction.LINK, name, down=state == "down")
        elif not nic.is_function and not nic.is_down and name in refreshed:
            yield NicStep(NicAction.LINK, name, down=True)

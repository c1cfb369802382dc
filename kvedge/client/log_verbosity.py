"""How much the roles log, as `virtctl adm log-verbosity` has it: fields of the KubeVirt object, read and changed.

Used by the command line. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvedge.resources.codec import JsonObject

# KubeVirt's components, by the fields that say how much each logs.
FIELDS: Final[Mapping[str, str]] = {
    "virt-api": "virtAPI",
    "virt-controller": "virtController",
    "virt-handler": "virtHandler",
    "virt-launcher": "virtLauncher",
    "virt-operator": "virtOperator",
}
# Parts that kvedge has not, and a launcher that always logs the same.
WITHOUT_EFFECT: Final = frozenset({"virt-launcher", "virt-operator"})
# KubeVirt's, which is as much as kvedge's roles log by themselves.
DEFAULT: Final = 2
# Fields beside those of components that go with a reset.
_OTHERS: Final = ("virtSynchronizationController", "nodeVerbosity")


def read_verbosity(kubevirt: JsonObject) -> dict[str, int]:
    """The verbosity of each component, by its name."""
    given = _read_levels(kubevirt)
    return {name: given.get(field, DEFAULT) for name, field in FIELDS.items()}


def make_patch(wanted: Mapping[str, int], *, reset: bool) -> JsonObject:
    """The merge patch of a KubeVirt object that sets what is `wanted`; with `reset` all other levels go."""
    levels: dict[str, Any] = dict.fromkeys((*FIELDS.values(), *_OTHERS)) if reset else {}
    levels |= {FIELDS[name]: level for name, level in wanted.items()}
    return {"spec": {"configuration": {"developerConfiguration": {"logVerbosity": levels}}}}


def _read_levels(kubevirt: JsonObject) -> JsonObject:
    found: Any = kubevirt
    for name in ("spec", "configuration", "developerConfiguration", "logVerbosity"):
        found = found.get(name) or {}
    return dict(found)

"""The KubeVirt object's settings in words: a row for each that is set. Pure; called by `settings_calls`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.web.texts.shown_text import showable

_MOST: Final = 200
_LONGEST: Final = 1024
# How far a manifest's objects are looked into.
_DEEPEST: Final = 12
_CONFIGURATION: Final = "configuration"
_DEVELOPER: Final = f"{_CONFIGURATION}.developerConfiguration"
_MIGRATIONS: Final = f"{_CONFIGURATION}.migrations"
_LIVE_UPDATE: Final = f"{_CONFIGURATION}.liveUpdateConfiguration"
# What a setting is, by its path below `spec`; one that is not here is shown by its path.
WORDS: Final = {
    f"{_DEVELOPER}.featureGates": "Features that are switched on",
    f"{_DEVELOPER}.disabledFeatureGates": "Features that are switched off",
    f"{_DEVELOPER}.useEmulation": "Guests run without KVM where a node has none",
    f"{_DEVELOPER}.memoryOvercommit": "Memory that guests see, in percent of what is requested for them",
    f"{_DEVELOPER}.cpuAllocationRatio": "Virtual CPUs for one CPU of a node",
    f"{_DEVELOPER}.nodeSelectors": "Labels of nodes that take guests",
    f"{_MIGRATIONS}.parallelMigrationsPerCluster": "Migrations at once, in all",
    f"{_MIGRATIONS}.parallelOutboundMigrationsPerNode": "Migrations at once, from one node",
    f"{_MIGRATIONS}.bandwidthPerMigration": "Bytes a second of one migration",
    f"{_MIGRATIONS}.completionTimeoutPerGiB": "Seconds for each GiB until a migration is given up",
    f"{_MIGRATIONS}.progressTimeout": "Seconds without progress until a migration is given up",
    f"{_MIGRATIONS}.allowAutoConverge": "Guests are slowed down so that a migration ends",
    f"{_MIGRATIONS}.allowPostCopy": "Guests may move before all of their memory has",
    f"{_MIGRATIONS}.disableTLS": "Migrations are not encrypted",
    f"{_MIGRATIONS}.network": "Network of migrations",
    f"{_LIVE_UPDATE}.maxCpuSockets": "Sockets up to which CPUs can be added to a guest that runs",
    f"{_LIVE_UPDATE}.maxGuest": "Memory up to which it can be added to a guest that runs",
    f"{_LIVE_UPDATE}.maxHotplugRatio": "Times what a guest has that can be added while it runs",
    f"{_CONFIGURATION}.vmRolloutStrategy": "How a changed VM reaches its guest",
    f"{_CONFIGURATION}.evictionStrategy": "What becomes of guests when a node is drained",
    f"{_CONFIGURATION}.cpuModel": "CPU model of guests that name none",
    f"{_CONFIGURATION}.cpuRequest": "CPU that is requested for guests that request none",
    f"{_CONFIGURATION}.vmStateStorageClass": "Storage class of TPM and EFI state",
    "uninstallStrategy": "What uninstalling does while there are VMs",
    "workloadUpdateStrategy.workloadUpdateMethods": "How guests get a newer launcher",
}


def settings_view(kubevirt: KubeVirt) -> JsonObject:
    """What is set, in words, and what became of it."""
    found = list(islice(_leaves(kubevirt.spec, "", 0), _MOST + 1))
    conditions = [encode(each) for each in kubevirt.status.conditions[:_MOST]]
    return {
        "namespace": kubevirt.metadata.namespace,
        "name": kubevirt.metadata.name,
        "phase": showable(kubevirt.status.phase),
        "version": showable(kubevirt.status.observed_kube_virt_version),
        "rows": [
            {"words": WORDS.get(path, showable(path)), "path": showable(f"spec.{path}"), "value": value}
            for path, value in found[:_MOST]
        ],
        "more": len(found) > _MOST,
        "conditions": [
            {key: showable(str(each.get(key) or ""), _LONGEST) for key in ("type", "status", "message")}
            for each in conditions
        ],
    }


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Each setting by its path; lists, labels and what lies too deep are one setting."""
    if isinstance(value, dict) and value and depth < _DEEPEST and path not in WORDS:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key), depth + 1)
    elif path:
        yield path, showable(_words_of(value), _LONGEST)


def _words_of(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_words_of(each) for each in value[:_MOST]) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={each}" for key, each in islice(value.items(), _MOST)) or "as by default"
    return "unset" if value is None else str(value)

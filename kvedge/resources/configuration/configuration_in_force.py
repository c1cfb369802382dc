"""Which KubeVirt object counts, and which configuration is in force when it changes.

Called by the follower in kube/ and by the controller. Pure. A bad value takes no role down: the last good
configuration of this object stays in force, and a role that has seen none yet takes the values that it can use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from kvedge.resources.configuration.configuration import DEFAULTS, Configuration, Finding, Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration
from kvedge.resources.names import EVEN_PARITY, GO_TRUE, GRAPHICS, GRAPHICS_VALUES, SKIP_BACKUP_HOOKS
from kvedge.resources.types.kubevirt import KubeVirt


class InForce(Struct, frozen=True):
    """The configuration that roles work by; `uid` and `generation` are of the object it comes from, if any."""

    configuration: Configuration = DEFAULTS
    uid: str = ""
    generation: int = 0
    findings: tuple[Finding, ...] = ()
    # Whether it is an earlier one than the object asks for.
    is_earlier: bool = False


def counting(objects: Iterable[KubeVirt]) -> KubeVirt | None:
    """The one object that counts: the oldest."""
    return min(objects, key=lambda item: item.precedence, default=None)


def known_graphics(annotations: Mapping[str, str]) -> str:
    """By what viewers reach screens; empty where nothing, or nothing known, is said."""
    found = annotations.get(GRAPHICS, "")
    return found if found in GRAPHICS_VALUES else ""


def next_in_force(before: InForce, objects: Iterable[KubeVirt]) -> InForce:
    """What is in force now that these objects are there."""
    kubevirt = counting(objects)
    if kubevirt is None:
        return InForce()
    meta = kubevirt.metadata
    # Annotations have no part in the generation.
    if (before.uid, before.generation) == (meta.uid, meta.generation):
        configuration = _with_annotations(before.configuration, meta.annotations)
        return before if configuration == before.configuration else replace(before, configuration=configuration)
    reading: Reading = read_configuration(kubevirt.spec)
    is_bad = bool(reading.of(Issue.INVALID))
    keeps = is_bad and before.uid == meta.uid
    configuration = before.configuration if keeps else reading.configuration
    configuration = _with_annotations(configuration, meta.annotations)
    return InForce(configuration, meta.uid, meta.generation, reading.findings, keeps)


def _with_annotations(configuration: Configuration, annotations: Mapping[str, str]) -> Configuration:
    return replace(
        configuration,
        even_parity=EVEN_PARITY in annotations,
        graphics=known_graphics(annotations),
        skips_backup_hooks=annotations.get(SKIP_BACKUP_HOOKS) in GO_TRUE,
    )

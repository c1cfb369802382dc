"""Which KubeVirt object counts, and which configuration is in force when it changes.

Called by the follower in kube/ and by the controller. Pure. A bad value takes no role down: the last good
configuration of this object stays in force, and a role that has seen none yet takes the values that it can use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvedge.resources.configuration.configuration import DEFAULTS, Configuration, Finding, Issue
from kvedge.resources.configuration.configuration_reading import Reading, read_configuration
from kvedge.resources.names import EVEN_PARITY
from kvedge.resources.types.kubevirt import KubeVirt


@dataclass(frozen=True, slots=True)
class InForce:
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


def next_in_force(before: InForce, objects: Iterable[KubeVirt]) -> InForce:
    """What is in force now that these objects are there."""
    kubevirt = counting(objects)
    if kubevirt is None:
        return InForce()
    meta = kubevirt.metadata
    # An annotation, which no generation counts.
    parity = EVEN_PARITY in meta.annotations
    if (before.uid, before.generation, before.configuration.even_parity) == (meta.uid, meta.generation, parity):
        return before
    reading: Reading = read_configuration(kubevirt.spec)
    is_bad = bool(reading.of(Issue.INVALID))
    keeps = is_bad and before.uid == meta.uid
    configuration = replace(before.configuration if keeps else reading.configuration, even_parity=parity)
    return InForce(configuration, meta.uid, meta.generation, reading.findings, keeps)

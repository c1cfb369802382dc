"""What the doctor says of a host: findings, each with its level and a remedy; and what a rule is.

Made by the rules beside this file, told by the verbs. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from kvedge.appliance.doctor.host_facts import HostFacts, Version
from kvedge.runtime.settings import Settings


class Level(StrEnum):
    """How bad: FAIL keeps VMs from running, WARN makes them slower or an operator's life harder."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


class Finding(Struct, frozen=True):
    """One line of the report; `remedy` is empty where nothing need be done."""

    check: str
    level: Level
    detail: str
    remedy: str = ""


class DoctorOptions(Struct, frozen=True):
    """What the instance is asked to be: settings that host facts are held against."""

    data_dir: str
    pod_cidr: str
    service_cidr: str
    port: int
    emulation: str
    load_balancer_pool: str = ""
    # Volume group and pool of places for volumes, as lvm2 writes them.
    thin_pools: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> DoctorOptions:
        """Those among the settings of an instance."""
        return cls(
            settings.data_dir,
            settings.pod_cidr,
            settings.service_cidr,
            settings.port,
            settings.emulation,
            settings.load_balancer_pool,
            tuple("/".join(where) for where in settings.thin_pools_of_volumes.values()),
        )


Rule = Callable[[HostFacts, DoctorOptions], Iterator[Finding]]


def worst(findings: Sequence[Finding]) -> Level:
    """The gravest level among them."""
    order = list(Level)
    return max((finding.level for finding in findings), key=order.index, default=Level.OK)


def version_text(version: Version) -> str:
    """A version as people write it."""
    return ".".join(str(part) for part in version)

"""What libvirt is asked for when a guest is to move, and how far it says that it is; the machine tests move one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvedge.launcher.launcher_errors import DomainMissing
from tests.support.needs import NEEDS_LIBVIRT

pytestmark = NEEDS_LIBVIRT


# libvirt's flag of a domain as it is for good.
_INACTIVE = 2


class PlayedDomain:
    """Keeps what it is asked for; `stats` are its job's."""

    def __init__(self, stats: dict[str, Any] | None = None) -> None:
        self.stats = stats
        self.flags = 0
        self.parameters: dict[str, Any] = {}
        self.function = ""

    def name(self) -> str:
        return "n_v"

    def migrateToURI3(self, uri: str, parameters: dict[str, Any], flags: int) -> None:
        self.parameters, self.flags = parameters, flags

    def blockInfo(self, _target: str) -> list[int]:
        return [1024, 0, 0]

    def XMLDesc(self, flags: int) -> str:
        more = self.function if flags & _INACTIVE else ""
        return f'<domain id="{flags}"><devices><disk><target dev="vdb"/></disk>{more}</devices></domain>'

    def jobStats(self) -> dict[str, Any]:
        if self.stats is None:
            raise_invalid_operation()
        return self.stats or {}


def raise_invalid_operation() -> None:
    """As libvirt does for a domain that has ended."""
    import libvirt

    played = libvirt.open("test:///default")
    domain = played.lookupByName("test")
    domain.destroy()
    domain.destroy()


def moved(**wishes: Any) -> tuple[int, dict[str, Any]]:
    from kvedge.launcher.libvirt.domain_migration import DomainMigration, MigrationWish

    domain = PlayedDomain()
    DomainMigration(lambda: domain).move(MigrationWish(control="/c", memory="/m", disks="/d", **wishes))
    return domain.flags, domain.parameters


@pytest.mark.parametrize(
    ("wishes", "flag"),
    [
        ({"copied": ("vda",)}, "VIR_MIGRATE_NON_SHARED_INC"),
        ({"copied": (), "unsafe": True}, "VIR_MIGRATE_UNSAFE"),
        ({"copied": (), "connections": 4}, "VIR_MIGRATE_PARALLEL"),
        ({"copied": (), "auto_converge": True}, "VIR_MIGRATE_AUTO_CONVERGE"),
    ],
    ids=["disks to copy", "file systems that libvirt does not know", "several connections", "a slower guest"],
)
def test_each_wish_is_a_flag_of_its_own(wishes: dict[str, Any], flag: str) -> None:
    import libvirt

    plain, _ = moved(copied=())
    flags, _ = moved(**wishes)
    assert flags == plain | getattr(libvirt, flag)
    assert not plain & getattr(libvirt, flag)


def test_disks_that_are_others_over_there_are_so_now_and_for_good() -> None:
    import libvirt

    from kvedge.launcher.libvirt.destination_xml import CopiedClaim

    claim = CopiedClaim("data", "vdb", "/dev/data", block=True)
    _, parameters = moved(copied=("vdb",), claims=(claim,), migration="m-1")
    live, defined = (
        parameters[name] for name in (libvirt.VIR_MIGRATE_PARAM_DEST_XML, libvirt.VIR_MIGRATE_PARAM_PERSIST_XML)
    )
    for document in (live, defined):
        assert 'dev="/dev/data"' in document
        assert 'size="1024"' in document
    flags = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
    assert f'id="{flags}"' in live
    assert f'id="{flags | libvirt.VIR_DOMAIN_XML_INACTIVE}"' in defined
    plain = moved(copied=("vda",))[1]
    assert libvirt.VIR_MIGRATE_PARAM_DEST_XML not in plain


def no_domain() -> PlayedDomain:
    raise DomainMissing("there is no guest yet")


@pytest.mark.parametrize(
    ("find", "left"),
    [
        (lambda: PlayedDomain({"type": 2, "data_total": 10, "data_remaining": 4}), 4),
        (lambda: PlayedDomain({"type": 0}), None),
        (lambda: PlayedDomain(None), None),
        (no_domain, None),
    ],
    ids=["under way", "over", "the guest has just left", "no guest"],
)
def test_how_far_it_is_is_known_while_it_is_under_way(find: Callable[[], PlayedDomain], left: int | None) -> None:
    from kvedge.launcher.libvirt.domain_migration import DomainMigration

    found = DomainMigration(find).progress()
    assert (found.left if found is not None else None) == left


@pytest.mark.parametrize(
    ("more", "rate"),
    [
        ({"memory_dirty_rate": 3, "memory_page_size": 4096}, 3 * 4096),
        ({"memory_dirty_rate": 3}, None),
        ({}, None),
    ],
    ids=["seen once", "pages of an unknown size", "not seen yet"],
)
def test_memory_that_changes_is_told_in_bytes(more: dict[str, int], rate: int | None) -> None:
    from kvedge.launcher.libvirt.domain_migration import DomainMigration

    found = DomainMigration(lambda: PlayedDomain({"type": 2, "data_total": 10, **more})).progress()
    assert found is not None
    assert found.dirty_rate == rate


def test_a_domain_that_had_a_function_at_its_start_is_another_one_for_good() -> None:
    import libvirt

    from kvedge.launcher.libvirt.domain_migration import DomainMigration, MigrationWish

    domain = PlayedDomain()
    domain.function = '<hostdev><alias name="ua-sriov-fast"/></hostdev>'
    DomainMigration(lambda: domain).move(MigrationWish(control="/c", memory="/m", disks="/d", copied=()))
    persistent = domain.parameters[libvirt.VIR_MIGRATE_PARAM_PERSIST_XML]
    assert "vdb" in persistent
    assert "hostdev" not in persistent
    assert libvirt.VIR_MIGRATE_PARAM_DEST_XML not in domain.parameters
    assert libvirt.VIR_MIGRATE_PARAM_PERSIST_XML not in moved(copied=())[1]

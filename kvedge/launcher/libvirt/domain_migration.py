"""Moving the one domain to the libvirt at the other end of some sockets, how far that is, and ending it.

Part of the door to libvirt; made by `libvirt_session`. `move` takes as long as the migration does; the other calls may
come from other threads meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

import libvirt

from kvedge.launcher.launcher_errors import DomainMissing, WrongState
from kvedge.launcher.libvirt.destination_xml import CopiedClaim, Renaming, render_destination
from kvedge.launcher.libvirt.domain_disks import ALIAS
from kvedge.launcher.libvirt.domain_nics import drop_functions
from kvedge.launcher.libvirt.libvirt_errors import translate_errors

_MEBIBYTE: Final = 1 << 20


class MigrationWish(NamedTuple):
    """How to move: sockets of this Pod, the targets of the disks to copy, and limits (0 for none).

    `claims` are those of the copied disks that are on claims, of which the other Pod has others; `migration` is told
    with them.
    `unsafe` is for disks that are not copied: libvirt has a list of file systems that nodes share, and refuses others.
    """

    control: str
    memory: str
    disks: str
    copied: tuple[str, ...]
    bandwidth_bytes: int = 0
    connections: int = 0
    auto_converge: bool = False
    max_downtime_ms: int = 0
    unsafe: bool = False
    claims: tuple[CopiedClaim, ...] = ()
    migration: str = ""
    # Where the guest's VMI has another UID.
    renaming: Renaming | None = None


class MigrationFacts(NamedTuple):
    """How far it is, in bytes of memory and disks, and bytes a second."""

    total: int = 0
    sent: int = 0
    left: int = 0
    memory_rate: int = 0
    # How fast the guest changes its memory; None before QEMU has looked at all of it once.
    dirty_rate: int | None = None


class DomainMigration:
    """The migration of one domain away from here."""

    def __init__(self, find: Callable[[], Any]) -> None:
        """`find()` is the domain; raises LauncherError."""
        self._find = find

    def move(self, wish: MigrationWish) -> None:
        """Move it; after a success its QEMU has ended here, and waits, paused, over there.

        Raises:
            LauncherError: when it came to nothing; libvirt has then let the guest go on here, or it has ended.
        """
        domain = self._find()
        flags = (
            libvirt.VIR_MIGRATE_LIVE
            | libvirt.VIR_MIGRATE_PEER2PEER
            | libvirt.VIR_MIGRATE_PERSIST_DEST
            # The other side lets it run, once it is known that it is off here.
            | libvirt.VIR_MIGRATE_PAUSED
        )
        parameters: dict[str, Any] = {
            libvirt.VIR_MIGRATE_PARAM_URI: f"unix://{wish.memory}",
            libvirt.VIR_MIGRATE_PARAM_DEST_NAME: domain.name(),
        }
        if wish.copied:
            # libvirt 9.0 copies nothing, and says that all is well, when it gets the list without the flag.
            flags |= libvirt.VIR_MIGRATE_NON_SHARED_INC
            parameters[libvirt.VIR_MIGRATE_PARAM_DISKS_URI] = f"unix://{wish.disks}"
            parameters[libvirt.VIR_MIGRATE_PARAM_MIGRATE_DISKS] = list(wish.copied)
        if wish.connections > 1:
            flags |= libvirt.VIR_MIGRATE_PARALLEL
            parameters[libvirt.VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS] = wish.connections
        if wish.auto_converge:
            flags |= libvirt.VIR_MIGRATE_AUTO_CONVERGE
        if wish.unsafe:
            flags |= libvirt.VIR_MIGRATE_UNSAFE
        if wish.bandwidth_bytes:
            parameters[libvirt.VIR_MIGRATE_PARAM_BANDWIDTH] = max(1, wish.bandwidth_bytes // _MEBIBYTE)
        with translate_errors("moving the guest"):
            if (persistent := _render_without_functions(domain)) is not None:
                parameters[libvirt.VIR_MIGRATE_PARAM_PERSIST_XML] = persistent
            if wish.claims or wish.renaming is not None:
                parameters |= _render_destinations(domain, wish)
            if wish.max_downtime_ms:
                domain.migrateSetMaxDowntime(wish.max_downtime_ms)
            domain.migrateToURI3(f"qemu+unix:///session?socket={wish.control}", parameters, flags)

    def progress(self) -> MigrationFacts | None:
        """How far it is; None when nothing is known now."""
        # It may be over since it was asked for.
        with (
            contextlib.suppress(DomainMissing, WrongState),
            translate_errors("reading how far the migration is"),
        ):
            found = self._find().jobStats()
            if found.get("type") and "data_total" in found:
                return MigrationFacts(
                    total=found["data_total"],
                    sent=found.get("data_processed", 0),
                    left=found.get("data_remaining", 0),
                    memory_rate=found.get("memory_bps", 0),
                    dirty_rate=_find_dirty_rate(found),
                )
        return None

    def abort(self) -> None:
        """End it; `move` then raises.

        Raises:
            LauncherError: when none is under way.
        """
        with translate_errors("ending the migration"):
            self._find().abortJob()


def _find_dirty_rate(found: Mapping[str, int]) -> int | None:
    """In bytes a second; libvirt counts in pages."""
    pages, page = found.get("memory_dirty_rate"), found.get("memory_page_size")
    return None if pages is None or page is None else pages * page


def _render_without_functions(domain: Any) -> str | None:
    """What the domain is for good, where it had virtual functions of this node at its start; None where it had none.

    The guest that runs has given them back.
    """
    flags = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE | libvirt.VIR_DOMAIN_XML_INACTIVE
    document = ElementTree.fromstring(domain.XMLDesc(flags))
    return ElementTree.tostring(document, encoding="unicode") if drop_functions(document, ALIAS) else None


def _render_destinations(domain: Any, wish: MigrationWish) -> dict[str, str]:
    """The documents of the guest that runs, and of the domain that it is there for good."""
    sizes = {claim.target: int(domain.blockInfo(claim.target)[0]) for claim in wish.claims}
    flags = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
    kinds = {
        libvirt.VIR_MIGRATE_PARAM_DEST_XML: flags,
        libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: flags | libvirt.VIR_DOMAIN_XML_INACTIVE,
    }
    return {
        name: render_destination(domain.XMLDesc(kind), wish.claims, sizes, wish.migration, wish.renaming)
        for name, kind in kinds.items()
    }

"""What a launcher does that finds a guest released by one before it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord
from tests.support.needs import NEEDS_LIBVIRT

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

pytestmark = NEEDS_LIBVIRT

OPTIONS = LauncherOptions(namespace="n", name="v", uid="u", incoming="m-1")
COMING = IncomingRecord("m-1", prepared=True, arrived=True)
PAUSED = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.USER)
RUNS = DomainFacts(uuid="u", life=Life.RUNNING, why=Why.UNPAUSED)


class PlayedLibvirt:
    def __init__(self, found: DomainFacts | None) -> None:
        self.found = found
        self.unpaused = 0

    def facts(self) -> DomainFacts | None:
        return self.found

    def unpause(self) -> None:
        self.unpaused += 1


@pytest.mark.parametrize(
    ("record", "found", "unpaused"),
    [
        pytest.param(COMING._replace(goes_on=True), PAUSED, 1, id="killed before it let the guest run"),
        pytest.param(COMING._replace(goes_on=True), RUNS, 0, id="killed after it let the guest run"),
        pytest.param(COMING._replace(goes_on=True), None, 0, id="the guest has ended"),
        pytest.param(COMING, PAUSED, 0, id="the guest came paused by a user"),
        pytest.param(IncomingRecord("m-0", goes_on=True), PAUSED, 0, id="of another migration"),
    ],
)
def test_a_released_guest_is_let_run_once(
    tmp_path: Path, record: IncomingRecord, found: DomainFacts | None, unpaused: int
) -> None:
    from kvedge.launcher.incoming_process import take_over

    store, libvirt = MigrationRecord(str(tmp_path)), PlayedLibvirt(found)
    store.keep_incoming(record)
    take_over(OPTIONS, cast("LibvirtSession", libvirt), store)
    assert libvirt.unpaused == unpaused
    assert not store.incoming().goes_on or record.uid != "m-1"

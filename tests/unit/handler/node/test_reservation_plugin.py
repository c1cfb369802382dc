"""The plugin of qemu-pr-helper: offered where it is allowed and can be, and the helper runs while it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from kvedge.handler.node.reservation_helper import ReservationHelper
from kvedge.handler.node.reservation_plugin import Reservations
from kvedge.resources.names import PR_HELPER_DIRECTORY


class PlayedHelper:
    """Stands for the process."""

    def __init__(self) -> None:
        self.directory = Path("/state/pr-helper")
        self.is_there = True
        self.runs = False
        self.fails = False

    def keep(self) -> None:
        if self.fails:
            raise PermissionError(1, "Operation not permitted")
        self.runs = True

    def end(self) -> None:
        self.runs = False


class Stage:
    def __init__(self) -> None:
        self.helper = PlayedHelper()
        self.is_used = False
        self.told: list[str] = []
        helper = cast("ReservationHelper", self.helper)
        self.reservations = Reservations(helper, lambda: self.is_used, self.told.append)

    def offers(self) -> bool:
        return bool(self.reservations.plugins())


def test_nothing_runs_and_nothing_is_offered_until_it_is_allowed() -> None:
    stage = Stage()
    assert not stage.offers()
    assert not stage.helper.runs
    stage.reservations.allow(True)
    (plugin,) = stage.reservations.plugins()
    assert stage.helper.runs
    assert stage.reservations.plugins() == [plugin], "one plugin stays one"
    assert plugin.resource == "devices.kubevirt.io/pr-helper"
    assert {(device.health) for device in plugin.render(plugin.state)} == {"Healthy"}


def test_a_pod_gets_the_directory_and_cannot_write_it() -> None:
    stage = Stage()
    stage.reservations.allow(True)
    (plugin,) = stage.reservations.plugins()
    given = plugin.give(["pr-helper0"])
    assert [(mount.container_path, mount.host_path, mount.read_only) for mount in given.mounts] == [
        (PR_HELPER_DIRECTORY, "/state/pr-helper", True)
    ]
    assert not given.devices


def test_a_helper_that_does_not_run_is_offered_as_unhealthy() -> None:
    stage = Stage()
    stage.reservations.allow(True)
    (plugin,) = stage.reservations.plugins()
    stage.helper.runs = False
    plugin.refresh()
    assert {device.health for device in plugin.render(plugin.state)} == {"Unhealthy"}


def test_guests_keep_the_helper_when_no_more_may_come() -> None:
    stage = Stage()
    stage.reservations.allow(True)
    assert stage.offers()
    stage.is_used = True
    stage.reservations.allow(False)
    assert not stage.offers()
    assert stage.helper.runs
    stage.reservations.stop()
    assert stage.helper.runs
    stage.is_used = False
    assert not stage.offers()
    assert not stage.helper.runs


def test_a_handler_that_stops_without_such_guests_ends_it() -> None:
    stage = Stage()
    stage.reservations.allow(True)
    assert stage.offers()
    stage.reservations.stop()
    assert not stage.helper.runs


def test_a_node_without_the_program_offers_nothing_and_says_so_once() -> None:
    stage = Stage()
    stage.helper.is_there = False
    stage.reservations.allow(True)
    assert not stage.offers()
    assert not stage.offers()
    (said,) = stage.told
    assert said.startswith("guests cannot reserve LUNs here, as this node has no qemu-pr-helper: install qemu-system-")
    # The operator installs it.
    stage.helper.is_there = True
    assert stage.offers()


def test_why_it_cannot_be_started_is_told() -> None:
    stage = Stage()
    stage.helper.fails = True
    stage.reservations.allow(True)
    (plugin,) = stage.reservations.plugins()
    assert not plugin.state
    assert stage.told == ["qemu-pr-helper cannot be started: Operation not permitted"]

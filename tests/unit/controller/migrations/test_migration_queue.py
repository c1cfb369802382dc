"""Which migration may begin, and which are kept."""

from __future__ import annotations

import pytest

from kvedge.controller.migrations.migration_queue import (
    Place,
    find_next,
    has_begun,
    is_surplus,
    pause_seconds,
)
from kvedge.resources.configuration.configuration import Migrations
from tests.support.builders import a_pod, a_vmi
from tests.support.migrating import a_migration

LIMITS = Migrations(parallel_per_node=2, parallel_per_cluster=5)


def place(name: str, source: str = "node-1", priority: str | None = None, age: int = 0) -> Place:
    return Place(a_migration("Pending", name=name, age=age, priority=priority), source)


def names(waiting: list[Place], begun: list[Place]) -> list[str]:
    return [each.migration.metadata.name for each in find_next(waiting, begun, LIMITS)]


def test_two_guests_leave_a_node_at_a_time_and_five_move_in_the_cluster():
    waiting = [place(f"{node}-{number}", f"node-{node}") for node in "abcd" for number in range(3)]
    assert names(waiting, []) == ["a-0", "a-1", "b-0", "b-1", "c-0"]
    begun = [place("x", "node-a"), place("y", "node-a"), place("z", "node-b")]
    assert names(waiting, begun) == ["b-0", "c-0"]
    assert names(waiting, [*begun, place("v", "node-e"), place("w", "node-e")]) == []


def test_what_is_urgent_comes_first_and_of_equals_the_oldest():
    waiting = [
        place("asked", age=9),
        place("maintenance", "node-2", "system-maintenance"),
        place("hotplug", "node-3", "user-triggered"),
        place("older-drain", "node-4", "system-critical", age=5),
        place("drain", "node-5", "system-critical"),
    ]
    assert names(waiting, []) == ["older-drain", "drain", "hotplug", "maintenance", "asked"]


@pytest.mark.parametrize(
    ("priority", "seconds"),
    [("system-critical", 1.0), ("user-triggered", 3.0), ("system-maintenance", 5.0), (None, 5.0)],
)
def test_the_urgent_ones_look_more_often_for_a_place(priority, seconds):
    assert pause_seconds(a_migration("Pending", priority=priority)) == seconds


@pytest.mark.parametrize(
    ("phase", "has_pod", "expected"),
    [
        ("Pending", False, False),
        ("Pending", True, True),
        ("Scheduling", False, True),
        ("Running", True, True),
        ("Failed", True, False),
    ],
)
def test_a_migration_counts_from_its_pod_to_its_end(phase, has_pod, expected):
    pod = a_pod(a_vmi()) if has_pod else None
    assert has_begun(a_migration(phase), pod) is expected


def test_five_migrations_of_a_vmi_are_kept_that_have_ended():
    others = [a_migration("Failed", name=f"old-{age}", age=age) for age in range(1, 6)]
    assert not is_surplus(others[4], others[:4])
    newest = a_migration("Succeeded", name="new")
    assert is_surplus(others[4], [*others[:4], newest])
    assert not is_surplus(newest, others)
    assert not is_surplus(others[4], [*others[:4], a_migration("Running", name="new")])

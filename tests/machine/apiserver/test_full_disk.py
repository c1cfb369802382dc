"""A disk that is really full: writes are refused with a clear word, nothing answered is lost, and it recovers."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.store.object_store_file import check_file
from tests.support.api_client import Answer, ApiClient, names
from tests.support.api_nursery import ApiNursery, nursery
from tests.support.waiting import wait_until
from tests.support.widgets import config_map, config_maps

pytestmark = pytest.mark.machine


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def born() -> Iterator[ApiNursery]:
    with nursery() as made:
        yield made


def fill(place: Path) -> Path:
    """Take all the room that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return ballast


def write_until_refused(admin: ApiClient, prefix: str) -> tuple[list[str], Answer]:
    """The names of what was made, and the refusal."""
    made: list[str] = []
    for number in range(2000):
        answer = admin.post(config_maps("default"), config_map(f"{prefix}{number}", text="x" * 20_000))
        if answer.status != 201:
            return made, answer
        made.append(f"{prefix}{number}")
    raise AssertionError("the disk did not fill up")


def test_a_full_disk_refuses_writes_loses_nothing_and_recovers(small_disk: Path, born: ApiNursery) -> None:
    process = born.start(small_disk)
    admin = process.client()
    watch = admin.watch(config_maps("default"))
    kept: list[str] = []
    for number in range(20):
        admin.made(config_maps("default"), config_map(f"early{number}", text="x" * 1000))
        kept.append(f"early{number}")
    ballast = fill(small_disk)
    made, refusal = write_until_refused(admin, "late")
    kept += made
    assert (refusal.status, refusal.json["reason"]) == (507, "InsufficientStorage")
    assert "disk is full" in refusal.message
    assert "nothing was changed" in refusal.message
    # Reading goes on, and what was refused is not there.
    assert set(names(admin.get(config_maps("default")))) == set(kept)
    # Several clients, again and again: each is refused, none hangs.
    statuses: list[int] = []

    def insist(number: int) -> None:
        client = process.client()
        for turn in range(5):
            body = config_map(f"no{number}-{turn}", text="x" * 50_000)
            statuses.append(client.post(config_maps("default"), body).status)
        client.close()

    threads = [threading.Thread(target=insist, args=(number,), name=f"client-{number}") for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert set(statuses) <= {507, 503, 201}
    kept += [name for name in names(admin.get(config_maps("default"))) if name.startswith("no")]
    ballast.unlink()
    admin.made(config_maps("default"), config_map("again", text="x" * 100_000))
    kept.append("again")
    events = watch.wait(len(kept))
    assert sorted(event["object"]["metadata"]["name"] for event in events) == sorted(kept)
    watch.close()
    # And after a kill at this point.
    process.kill()
    process = born.start(small_disk)
    assert sorted(names(process.client().get(config_maps("default")))) == sorted(kept)
    process.kill()
    assert check_file(process.database) > len(kept)


def test_a_kill_on_a_full_disk_loses_nothing_that_was_answered(small_disk: Path, born: ApiNursery) -> None:
    process = born.start(small_disk)
    admin = process.client()
    for number in range(20):
        admin.made(config_maps("default"), config_map(f"early{number}", text="x" * 1000))
    ballast = fill(small_disk)
    made, _ = write_until_refused(admin, "late")
    process.kill()
    ballast.unlink()
    process = born.start(small_disk)
    found = set(names(process.client().get(config_maps("default"))))
    assert {f"early{number}" for number in range(20)} | set(made) <= found


def test_a_copy_that_has_no_room_is_said_and_the_old_ones_stay(small_disk: Path, born: ApiNursery) -> None:
    process = born.start(small_disk)
    admin = process.client()
    admin.made("/api/v1/nodes", {"metadata": {"name": "box"}})
    admin.made(config_maps("default"), config_map("large", text="x" * 900_000))
    copies = sorted((small_disk / "backup").glob("*.db"))
    assert copies
    process.kill()
    ballast = fill(small_disk)
    # A little, so that it can start at all.
    os.truncate(ballast, ballast.stat().st_size - 300_000)
    process = born.start(small_disk)
    admin = process.client()

    def told() -> bool:
        conditions = admin.get("/api/v1/nodes/box").json.get("status", {}).get("conditions", [])
        return any(item["type"] == "StoreCopied" and item["status"] == "False" for item in conditions)

    wait_until(told, "the Node says that no copy could be made")
    assert set(copies) <= set((small_disk / "backup").glob("*.db"))
    assert not list((small_disk / "backup").glob("*.unfinished"))

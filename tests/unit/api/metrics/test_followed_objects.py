"""Objects are followed while somebody asks for them, and no longer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.api.metrics import followed_objects
from kvedge.api.metrics.followed_objects import IDLE_SECONDS, FollowedObjects, GuestHomes
from kvedge.api.metrics.label_choice import LabelChoice
from kvedge.api.metrics.seen_objects import SeenObjects
from kvedge.kube.kube_client import KubeClient
from tests.support.scripted_api import Exchange, ScriptedApi, a_list, scripted_api, status


@pytest.fixture
def over() -> Iterator[threading.Event]:
    """Ends watches."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def api(over: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """A server with one object of each kind, which has no kind for snapshots."""
    # What is served is listed long before; what is not costs each test so much.
    monkeypatch.setattr(followed_objects, "_FIRST_SECONDS", 1.0)

    def script(exchange: Exchange) -> None:
        if exchange.request.path.endswith("virtualmachinesnapshots"):
            exchange.answer(404, status(404, "NotFound"))
        elif exchange.request.path.endswith("configmaps/kubevirt-vm-labels-config"):
            exchange.answer(200, {"data": {"allowlist": "app"}})
        elif "watch" in exchange.request.query:
            exchange.begin()
            over.wait(20)
        else:
            exchange.answer(200, a_list("one"))

    with scripted_api(script) as api:
        yield api


class Asked:
    """Objects of a server, and a clock."""

    def __init__(self, api: ScriptedApi, path: Path) -> None:
        self.api, self.now = api, 100.0
        self.client = KubeClient.from_kubeconfig(api.write_kubeconfig(path))
        self.objects = FollowedObjects(self.client, lambda: self.now)

    def read(self) -> SeenObjects:
        return asyncio.run(self.objects.read())

    def lists(self) -> int:
        """How often VMs were listed."""
        found = [each for each in self.api.requests if each.path.endswith("virtualmachines")]
        return sum("watch" not in each.query for each in found)


@pytest.fixture
def asked(api: ScriptedApi, over: threading.Event, tmp_path: Path) -> Iterator[Asked]:
    asked = Asked(api, tmp_path / "kubeconfig")
    asked.objects.start()
    yield asked
    over.set()
    asked.objects.stop()
    asked.client.close()


def test_nothing_is_followed_before_somebody_asks(asked: Asked) -> None:
    asked.objects.rest()
    assert (asked.api.requests, asked.objects.failure()) == ([], None)


def test_objects_are_listed_once_and_a_kind_that_is_not_served_is_told(asked: Asked) -> None:
    seen = asked.read()
    assert [vm.metadata.name for vm in seen.vms] == ["one"]
    assert [len(each) for each in (seen.vmis, seen.migrations, seen.snapshots, seen.claims)] == [1, 1, 0, 1]
    assert seen.known == {
        "virtualmachines": True,
        "virtualmachineinstances": True,
        "virtualmachineinstancemigrations": True,
        "virtualmachinesnapshots": False,
        "persistentvolumeclaims": True,
    }
    asked.read()
    assert (asked.lists(), asked.objects.failure()) == (1, None)


def test_the_sites_choice_of_labels_is_read_now_and_then(asked: Asked) -> None:
    def reads() -> int:
        return sum("configmaps" in each.path for each in asked.api.requests)

    assert asked.read().labels == LabelChoice(frozenset({"app"}))
    asked.read()
    assert reads() == 1
    asked.now += 60
    asked.read()
    assert reads() == 2


def test_after_a_while_without_a_question_following_ends_and_begins_anew_with_the_next(
    asked: Asked, over: threading.Event
) -> None:
    asked.read()
    asked.now += IDLE_SECONDS - 1
    asked.objects.rest()
    asked.read()
    assert asked.lists() == 1
    asked.now += IDLE_SECONDS
    over.set()
    asked.objects.rest()
    over.clear()
    assert len(asked.read().vms) == 1
    assert asked.lists() == 2


def test_a_role_that_has_stopped_follows_nothing(asked: Asked) -> None:
    asked.objects.stop()
    assert (asked.read(), asked.api.requests) == (SeenObjects(), [])


def test_where_guests_run_is_followed_without_what_they_are(
    over: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_objects, "_FIRST_SECONDS", 10.0)

    def script(exchange: Exchange) -> None:
        if "watch" in exchange.request.query:
            exchange.begin()
            over.wait(20)
            return
        found = a_list("runs", "waits", "ended")
        statuses = ({"phase": "Running", "nodeName": "n1"}, {"phase": "Pending"}, {"phase": "Failed", "nodeName": "n2"})
        for item, told in zip(found["items"], statuses, strict=True):
            item["status"] = told
            item["metadata"]["annotations"] = {"long": "a" * 1000}
        exchange.answer(200, found)

    with scripted_api(script) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        homes = GuestHomes(client)
        homes.start()
        homes.rest()
        assert (api.requests, homes.failure()) == ([], None)
        assert asyncio.run(homes.read()) == {("default", "runs"): "n1"}
        assert homes.failure() is None
        over.set()
        homes.stop()
        client.close()
        assert {each.path.rpartition("/")[2] for each in api.requests} == {"virtualmachineinstances"}
        assert asyncio.run(homes.read()) == {}

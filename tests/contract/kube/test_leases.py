"""One leader at a time, on both servers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.leases import LEASE_SECONDS, RENEW_SECONDS, LeaderElection
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.cluster import Lease
from kvedge.resources.types.core import ConfigMap
from tests.support.clocks import FakeClock
from tests.support.either_server import EitherServer
from tests.support.scripted_api import refusing, scripted_api
from tests.support.waiting import wait_until


class Candidate:
    """An election and what it called."""

    def __init__(self, client: KubeClient, namespace: str, name: str, clock: FakeClock | None = None) -> None:
        self.calls: list[str] = []
        started: Callable[[], None] = lambda: self.calls.append("started")  # noqa: E731
        lost: Callable[[], None] = lambda: self.calls.append("lost")  # noqa: E731
        self.election = LeaderElection(client, namespace, "test", name, started, lost, clock)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make(either_server: EitherServer, namespace: str, clock: FakeClock) -> Iterator[Callable[[str], Candidate]]:
    made: list[Candidate] = []

    def make_one(name: str) -> Candidate:
        made.append(Candidate(either_server.admin, namespace, name, clock))
        return made[-1]

    yield make_one
    for candidate in made:
        candidate.election.stop()


def test_the_first_leads_and_the_second_waits(make):
    one, two = make("one"), make("two")
    one.election.step()
    two.election.step()
    assert one.calls == ["started"]
    assert two.calls == []
    assert one.election.is_leader
    assert not two.election.is_leader


def test_a_leader_that_renews_stays_the_leader_however_long(make, clock):
    one, two = make("one"), make("two")
    one.election.step()
    for _ in range(20):
        clock.seconds += 2
        one.election.step()
        two.election.step()
    assert (one.calls, two.calls) == (["started"], [])


def test_a_leader_that_is_silent_is_followed_when_its_lease_is_over(make, clock):
    one, two = make("one"), make("two")
    one.election.step()
    two.election.step()
    clock.seconds += LEASE_SECONDS - 1
    two.election.step()
    assert two.calls == []
    clock.seconds += 1
    two.election.step()
    assert two.calls == ["started"]
    one.election.step()
    assert one.calls == ["started", "lost"]


def test_another_clock_than_ones_own_is_not_trusted(make, clock, either_server, namespace):
    one, two = make("one"), make("two")
    one.election.step()
    past = {"spec": {"renewTime": "2001-01-01T00:00:00.000000Z"}}
    either_server.admin.patch(Lease, namespace, "test", MergePatch(past))
    two.election.step()
    assert two.calls == [], "the lease changed just now, whatever it says"


def test_a_lease_that_somebody_took_is_lost_at_once(make, either_server, namespace):
    one = make("one")
    one.election.step()
    either_server.admin.patch(Lease, namespace, "test", MergePatch({"spec": {"holderIdentity": "thief"}}))
    one.election.step()
    assert one.calls == ["started", "lost"]


def test_leaders_are_counted(make, clock, either_server, namespace):
    one, two = make("one"), make("two")
    one.election.step()
    clock.seconds += 2
    one.election.step()
    assert either_server.admin.get(Lease, namespace, "test").spec.lease_transitions == 0
    two.election.step()
    clock.seconds += LEASE_SECONDS
    two.election.step()
    lease = either_server.admin.get(Lease, namespace, "test")
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("two", 1)
    assert lease.spec.acquire_time == lease.spec.renew_time


def test_a_leader_that_stops_gives_the_lease_back(either_server, namespace):
    one = Candidate(either_server.admin, namespace, "one")
    two = Candidate(either_server.admin, namespace, "two")
    one.election.start()
    wait_until(lambda: one.election.is_leader, "one leads")
    two.election.start()
    one.election.stop()
    assert one.calls == ["started", "lost"]
    wait_until(lambda: two.election.is_leader, "two leads without waiting for the lease to run out", seconds=10)
    two.election.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "lease-test"]


def test_a_leader_whose_server_is_away_gives_up_before_its_lease_is_over(tmp_path, clock, either_server, namespace):
    one = Candidate(either_server.admin, namespace, "one", clock)
    one.election.step()
    assert one.election.is_leader
    with scripted_api(refusing(503, "ServiceUnavailable")) as api:
        one.election._client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig")).hurry(1)
        clock.seconds += RENEW_SECONDS - 1
        one.election.step()
        assert one.election.is_leader
        clock.seconds += 1
        one.election.step()
    assert one.calls == ["started", "lost"]


def test_who_slept_through_its_lease_reads_but_writes_nothing_until_it_leads_again(
    make, clock, either_server, namespace
):
    one, two = make("one"), make("two")
    one.election.step()
    two.election.step()
    writer = either_server.admin.guard_writes(one.election.holds)
    writer.create(ConfigMap(metadata=ObjectMeta(name="first", namespace=namespace)))
    clock.seconds += RENEW_SECONDS
    # Nobody has told it yet, and nobody else leads.
    assert one.election.is_leader
    for call in (
        lambda: writer.create(ConfigMap(metadata=ObjectMeta(name="second", namespace=namespace))),
        lambda: writer.patch(ConfigMap, namespace, "first", MergePatch({"data": {"a": "b"}})),
        lambda: writer.hurry(1).delete(ConfigMap, namespace, "first"),
    ):
        with pytest.raises(Unavailable, match="does not lead"):
            call()
    assert writer.get(ConfigMap, namespace, "first").data == {}
    one.election.step()
    writer.delete(ConfigMap, namespace, "first")
    two.election.step()
    clock.seconds += LEASE_SECONDS
    two.election.step()
    one.election.step()
    assert (one.election.holds(), two.election.holds()) == (False, True)

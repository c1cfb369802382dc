"""What a candidate says when the server does not let it look at the lease."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube import leases
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.leases import LeaderElection
from tests.support.scripted_api import refusing, scripted_api


@pytest.mark.parametrize(("code", "told"), [(401, 1), (503, 3)], ids=["unknown", "overloaded"])
def test_that_nobody_knows_it_is_told_once_and_an_outage_at_each_try(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, told: int
) -> None:
    with scripted_api(refusing(code, "Refused")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        election = LeaderElection(client, "default", "test", "one", lambda: None, lambda: None)
        for _ in range(3):
            election.step()
    assert [record.message for record in caplog.records] == ["lease not renewed"] * told


def test_a_dead_leader_is_followed_within_15_seconds_and_a_living_one_gives_up_before_that() -> None:
    """Measured over processes this would be the machine's speed; these are the terms of which the time is made."""
    jitter = 1.2
    # The renewal is seen one look late, and the lease is taken from a server that answers within half a second.
    assert leases.LEASE_SECONDS + leases._LOOK_SECONDS * jitter + leases._SHORTEST_PAUSE + 0.5 < 15
    # Even when its last call, begun as late as it may, takes all of its time.
    assert leases.RENEW_SECONDS + leases._CALL_SECONDS < leases.LEASE_SECONDS
    assert leases.RETRY_SECONDS * jitter + leases._CALL_SECONDS < leases.RENEW_SECONDS

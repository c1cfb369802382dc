"""Addresses of Pods are given back while the agent runs, and it ends without waiting for the next deletion."""

from __future__ import annotations

import threading
import time
from unittest.mock import MagicMock

from kvedge.kube.errors import Unavailable
from kvedge.runtime.clock import SystemClock
from kvedge.standalone.agent.pod.address_sweep import AddressSweep
from kvedge.standalone.agent.pod.pod_addresses import PodAddresses
from tests.support.waiting import wait_until


def test_it_ends_although_nothing_is_deleted() -> None:
    addresses = PodAddresses(MagicMock(), "10.99.0.0/24", set)
    sweep = AddressSweep(addresses, SystemClock())
    sweep.start()
    assert sweep.failure() is None
    begun = time.monotonic()
    sweep.stop()
    assert time.monotonic() - begun < 1.5
    assert "address-sweep" not in [thread.name for thread in threading.enumerate()]


def test_a_look_that_the_api_refuses_is_followed_by_the_next() -> None:
    tries: list[float] = []

    def release_next(seconds: float) -> bool:
        tries.append(seconds)
        if len(tries) < 3:
            raise Unavailable(503, "ServiceUnavailable", "later")
        time.sleep(0.01)
        return False

    sweep = AddressSweep(MagicMock(release_next=release_next), SystemClock())
    sweep.start()
    wait_until(lambda: len(tries) > 3, "it is tried again")
    assert sweep.failure() is None
    sweep.stop()


def test_all_addresses_are_looked_through_now_and_then() -> None:
    clock = MagicMock()
    clock.monotonic.side_effect = [0.0, 59.0, 60.0, 60.0, *[61.0] * 10_000]
    addresses = MagicMock(release_next=lambda seconds: bool(time.sleep(0.01)))
    sweep = AddressSweep(addresses, clock)
    sweep.start()
    wait_until(lambda: clock.monotonic.call_count > 6, "some rounds")
    sweep.stop()
    assert addresses.sweep.call_count == 1

"""The real ufw and firewalld beside us: each is found, told with its remedy, and lived with through its reloads."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.network.netns import netns_path, run_in_netns
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.pods.foreign_forwarding import dropping_chains, has_firewalld
from kvedge.network.pods.pod_network import attach_pod, ensure_node_network
from tests.machine.network.foreign_firewalls import firewalld, ufw, unpack_firewalls
from tests.machine.network.own_host import on_a_host_of_its_own
from tests.machine.network.test_pod_network import ADDRESSES, MACS, OUTSIDE, outside, ping
from tests.support.pod_world import GATEWAY, node_config, node_network

UFW_CHAIN = "ip/filter/FORWARD"


@pytest.fixture(autouse=True, scope="module")
def _unpacked() -> None:
    unpack_firewalls()


@contextmanager
def a_pod(config: NodeNetworkConfig) -> Iterator[tuple[str, Callable[[], bool]]]:
    """A Pod, and whether it reaches somebody outside."""
    pod = f"{config.netns_prefix}a"
    with node_network(config):
        attach_pod(config, pod, ADDRESSES[0], MACS[0])
        with outside(config):
            yield pod, lambda: ping(pod, OUTSIDE)


def ours(config: NodeNetworkConfig) -> str:
    """Our table of the way out."""
    command = ["nft", "--stateless", "list", "table", "ip", config.table]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@on_a_host_of_its_own
def test_the_real_ufw_is_told_and_its_remedy_lets_guests_out_over_its_reloads() -> None:
    config = node_config()
    with a_pod(config) as (pod, gets_out):
        assert gets_out()
        before = ours(config)
        with ufw() as program:
            # Its own host is not cut off from its guests, nor they from it, and it says who drops.
            assert UFW_CHAIN in dropping_chains()
            assert UFW_CHAIN in ensure_node_network(config).blockers
            assert ping(pod, GATEWAY)
            assert not is_let_through(pod)
            # The remedy, as the doctor tells it.
            program.run("sbin/ufw", "route", "allow", "in", "on", config.bridge)
            assert is_let_through(pod)
            program.run("sbin/ufw", "reload")
            assert is_let_through(pod)
            program.run("sbin/ufw", "disable")
        assert gets_out()
        assert ours(config) == before


def is_let_through(pod: str) -> bool:
    """Whether the Pod begins a connection to somebody outside; ufw lets pings pass always."""
    try:
        run_in_netns(netns_path(pod), lambda: socket.create_connection((OUTSIDE, 9), timeout=2))
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    raise AssertionError(f"somebody listens at {OUTSIDE}")


@on_a_host_of_its_own
def test_the_real_firewalld_is_told_and_its_remedy_lets_guests_out_over_its_reloads(tmp_path: Path) -> None:
    config = node_config()
    with a_pod(config) as (pod, gets_out):
        assert gets_out()
        before = ours(config)
        with firewalld(tmp_path) as program:
            assert has_firewalld()
            assert ping(pod, GATEWAY)
            assert not gets_out()
            # The remedy, as the doctor tells it.
            program.run("bin/firewall-cmd", "--permanent", "--zone=trusted", f"--add-interface={config.bridge}")
            program.run("bin/firewall-cmd", "--reload")
            assert gets_out()
            program.run("bin/firewall-cmd", "--complete-reload")
            assert gets_out()
        assert not has_firewalld()
        assert gets_out()
        assert ours(config) == before

"""The names of ports, and the MAC of a Pod that has none."""

from __future__ import annotations

from kvedge.network.pods.attachments import attachment_for, port_name, port_prefix
from tests.unit.network.pods.node_networks import CONFIG


def test_names_of_ports_fit_and_tell_the_instance() -> None:
    name = port_name("kvedge0", "kvedge0-" + "x" * 200)
    assert len(name) == 15
    assert name.startswith(port_prefix("kvedge0"))
    assert port_prefix("kvedge0") != port_prefix("kve-abc123")


def test_a_pod_without_a_mac_gets_one_that_stays() -> None:
    made = [attachment_for(CONFIG, "kvedge0-a", "10.99.0.9", None).mac for _ in range(2)]
    assert made[0] == made[1] != attachment_for(CONFIG, "kvedge0-b", "10.99.0.9", None).mac

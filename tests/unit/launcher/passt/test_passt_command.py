"""What passt is told: which ports lead to the guest, and by what descriptor QEMU is reached."""

from __future__ import annotations

import pytest

from kvedge.launcher.passt.passt_command import needed_descriptors, passt_command
from kvedge.rpc.launcher_pb2 import Passt


def words(**asked: object) -> tuple[str, str]:
    command = passt_command("/usr/bin/passt", Passt(nic="eth0", **asked), 1450, 7)
    return command[command.index("--tcp-ports") + 1], command[command.index("--udp-ports") + 1]


@pytest.mark.parametrize(
    ("asked", "tcp", "udp"),
    [
        ({"all_ports": True}, "all", "all"),
        ({"tcp": [22, 80]}, "22,80", "none"),
        ({"udp": [53]}, "none", "53"),
        ({"tcp": [80], "udp": [53, 67]}, "80", "53,67"),
        ({"all_ports": True, "kept": [15000, 15001]}, "~15000,~15001", "none"),
        ({"tcp": [80, 15001], "kept": [15000, 15001]}, "80", "none"),
    ],
    ids=["none listed", "TCP", "UDP", "both", "a mesh", "a mesh and a list"],
)
def test_ports_lead_to_the_guest_as_kubevirt_has_it(asked: dict[str, object], tcp: str, udp: str) -> None:
    assert words(**asked) == (tcp, udp)


def test_passt_gets_qemus_connection_and_speaks_from_the_pods_nic() -> None:
    command = passt_command("/usr/bin/passt", Passt(nic="eth0", tcp=[80]), 1450, 7)
    assert command[:8] == ["/usr/bin/passt", "--quiet", "--fd", "7", "--interface", "eth0", "--mtu", "1450"]
    # Nothing that listens on the Pod's loopback is the guest's.
    assert "--no-map-gw" in command


def test_all_ports_take_a_socket_each_for_tcp_and_two_for_udp() -> None:
    listed = needed_descriptors(Passt(tcp=[80], udp=[53]))
    assert listed == needed_descriptors(Passt()) + 3
    assert 110_000 < needed_descriptors(Passt(all_ports=True)) < 115_000
    assert needed_descriptors(Passt(all_ports=True, kept=[15000])) < 40_000

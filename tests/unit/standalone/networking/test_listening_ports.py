"""Which ports the host's own programs have."""

from __future__ import annotations

from pathlib import Path

from kvedge.standalone.networking.listening_ports import listening_ports

HOST = "192.0.2.5"
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue\n"


def test_only_what_listens_for_others_counts(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(
        HEAD
        + "   0: 00000000:0016 00000000:0000 0A 00000000:00000000\n"
        + "   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n"
        + "   2: 050200C0:0050 0A0200C0:D431 01 00000000:00000000\n"
    )
    (tmp_path / "tcp6").write_text(
        HEAD + "   0: 00000000000000000000000000000000:01BB 00000000000000000000000000000000:0000 0A 0:0\n"
    )
    (tmp_path / "udp").write_text(HEAD + "   0: 00000000:0035 00000000:0000 07 00000000:00000000\n")
    assert listening_ports(HOST, proc=tmp_path) == {("TCP", 22), ("TCP", 443), ("UDP", 53)}


def test_only_what_is_at_the_hosts_address_counts(tmp_path: Path) -> None:
    """A name server at the bridge's address, or a resolver at one of the loopback, takes nothing of it."""
    at = {
        1: "0100007F",
        2: "3500007F",
        3: "0100630A",
        4: "050200C0",
    }
    lines = [f"   0: {address}:{port:04X} 00000000:0000 07 0:0\n" for port, address in at.items()]
    (tmp_path / "udp").write_text(HEAD + "".join(lines))
    mapped = [f"   0: 0000000000000000FFFF0000{address}:{port + 10:04X} 0:0 0A 0:0\n" for port, address in at.items()]
    mapped += [f"   0: {'0' * 31}1:0020 0:0 0A 0:0\n", f"   0: {'0' * 16}FFFF0000{'0' * 8}:0021 0:0 0A 0:0\n"]
    (tmp_path / "tcp6").write_text(HEAD + "".join(mapped))
    assert listening_ports(HOST, proc=tmp_path) == {("UDP", 4), ("TCP", 14), ("TCP", 0x21)}


def test_a_kernel_without_these_files_has_none(tmp_path: Path) -> None:
    assert listening_ports(HOST, proc=tmp_path) == frozenset()


def test_a_program_at_the_hosts_ipv6_address_counts_where_services_have_ipv6(tmp_path: Path) -> None:
    # 2001:db8::5, in the order of the host's bytes.
    (tmp_path / "tcp6").write_text(HEAD + "   0: B80D0120000000000000000005000000:0050 0:0 0A 0:0\n")
    assert listening_ports(HOST, "2001:db8::5", proc=tmp_path) == {("TCP", 80)}
    assert listening_ports(HOST, "2001:db8::6", proc=tmp_path) == frozenset()

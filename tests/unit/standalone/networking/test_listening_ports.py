"""Which ports the host's own programs have."""

from __future__ import annotations

from pathlib import Path

from kvedge.standalone.networking.listening_ports import listening_ports

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
    assert listening_ports(tmp_path) == {("TCP", 22), ("TCP", 443), ("UDP", 53)}


def test_a_kernel_without_these_files_has_none(tmp_path: Path) -> None:
    assert listening_ports(tmp_path) == frozenset()

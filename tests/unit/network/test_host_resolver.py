"""Which of the host's name servers can be reached from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.network.host_resolver import host_resolv_conf, outside_servers

STUB = "# This is systemd-resolved's stub.\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch lan\n"
REAL = "nameserver 192.0.2.1\nsearch lan\n"


@pytest.mark.parametrize(
    ("etc", "resolved", "expected"),
    [
        (REAL, "nameserver 198.51.100.1\n", REAL),
        (STUB, REAL, REAL),
        (None, REAL, REAL),
        ("", REAL, REAL),
        (STUB, None, ""),
        (STUB, "search lan\n", ""),
        (None, None, ""),
    ],
    ids=["its own", "behind the stub", "a link to nowhere", "empty", "a stub alone", "no network yet", "nothing"],
)
def test_the_first_file_that_names_a_server_elsewhere_counts(
    tmp_path: Path, etc: str | None, resolved: str | None, expected: str
) -> None:
    files = [tmp_path / "etc", tmp_path / "resolved"]
    for path, text in zip(files, (etc, resolved), strict=True):
        if text is not None:
            path.write_text(text)
    assert host_resolv_conf(files) == expected


def test_servers_on_the_loopback_and_those_that_are_none_are_left_out() -> None:
    text = (
        "nameserver 127.0.0.53\nnameserver ::1\nnameserver fe80::1%eth0\nnameserver me\nnameserver\n#nameserver 1.1\n"
    )
    assert outside_servers(text) == ["fe80::1%eth0"]

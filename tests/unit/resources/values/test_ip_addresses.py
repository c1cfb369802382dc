"""Addresses with leading zeros, as KubeVirt's own tests have them (kubevirt/kubevirt issue 6498)."""

from __future__ import annotations

import pytest

from kvedge.resources.values.ip_addresses import parse_ip, parse_ipv4, plain_ip


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("0127.0.0.3", "127.0.0.3"),
        ("01.1.1.1", "1.1.1.1"),
        ("010.010.000.08", "10.10.0.8"),
        ("::ffff:010.0.0.1", "10.0.0.1"),
        ("fd00::000a", "fd00::a"),
        ("64:ff9b::010.0.0.1", "64:ff9b::a00:1"),
    ],
)
def test_each_part_is_a_decimal_number(text: str, meant: str) -> None:
    assert plain_ip(text) == meant
    assert parse_ip(plain_ip(text)) == parse_ip(meant)


@pytest.mark.parametrize(
    "text",
    ["", "256.0.0.1", "0256.0.0.1", "1.2.3", "1.2.3.4.5", "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.-4", "1.2.3.4\n",
     "fe80::1%eth0", "\u0661.2.3.4", "time.example", "0" * 5000 + ".1.1.1", "1." * 5000 + "1", "9" * 5000],
)  # fmt: skip
def test_what_is_no_address_stays_what_it_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|address"):
        parse_ip(text)
    with pytest.raises(ValueError, match=r"zone|address"):
        parse_ipv4(text)
    assert plain_ip(text) == text


def test_an_ipv4_address_may_be_written_as_one_of_ipv6() -> None:
    assert str(parse_ipv4("::ffff:10.0.0.1")) == "10.0.0.1"
    with pytest.raises(ValueError, match="no IPv4 address"):
        parse_ipv4("fd00::1")

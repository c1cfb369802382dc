"""Questions and answers on the wire, held against another program's reading of them; and packets that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dns import DNS, DNSQR

from kvedge.standalone.names.name_message import (
    FAILED,
    MOST_ADDRESSES,
    MOST_IPV6_ADDRESSES,
    NoQuestion,
    Question,
    answer,
    answers,
    is_without_result,
    no_such_name,
    read_question,
    refusal,
    with_identity,
)

ZONE = "cluster.local"


def asked(name: str = "Web.default.svc.cluster.local", kind: str = "A", **header: int) -> bytes:
    return bytes(DNS(id=7, rd=1, qd=DNSQR(qname=name, qtype=kind), **header))


def question(name: str = "web.default.svc.cluster.local", kind: str = "A") -> Question:
    return read_question(asked(name, kind))


def test_a_name_is_read_without_regard_to_its_case() -> None:
    found = read_question(asked())
    assert found.labels == ("web", "default", "svc", "cluster", "local")
    assert [question(kind=kind).wanted_versions for kind in ("A", "AAAA", "ALL", "MX")] == [(4,), (6,), (4, 6), ()]


def test_addresses_are_told_to_whoever_asks_for_them() -> None:
    said = DNS(answer(question(), ["10.99.0.7", "10.99.0.8"], ZONE))
    assert (said.id, said.qr, said.aa, said.ra, said.rcode) == (7, 1, 1, 1, 0)
    assert [record.rdata for record in said.an] == ["10.99.0.7", "10.99.0.8"]
    assert {record.rrname for record in said.an} == {b"web.default.svc.cluster.local."}


def test_addresses_of_each_family_are_told_to_whoever_asks_for_that() -> None:
    known = ["fd01::5", "10.100.0.5"]
    for kind, told in (("A", ["10.100.0.5"]), ("AAAA", ["fd01::5"]), ("ALL", ["10.100.0.5", "fd01::5"])):
        said = DNS(answer(question(kind=kind), known, ZONE))
        assert [record.rdata for record in said.an] == told


def test_a_name_without_anything_of_that_type_is_there_all_the_same() -> None:
    said = DNS(answer(question(kind="AAAA"), ["10.99.0.7"], ZONE))
    assert (said.rcode, said.ancount, said.ns[0].rrname) == (0, 0, b"cluster.local.")


def test_a_name_that_is_not_there_is_said_to_be_not_there() -> None:
    said = DNS(no_such_name(question(), ZONE))
    assert (said.rcode, said.ancount, said.ns[0].type) == (3, 0, 6)
    assert is_without_result(no_such_name(question(), ZONE))


def test_a_question_that_cannot_be_answered_now_is_told_so() -> None:
    said = DNS(refusal(question()))
    assert (said.rcode, said.aa) == (FAILED, 0)


def test_an_answer_fits_into_a_datagram_whatever_the_name() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 60])
    many = [f"10.99.0.{last}" for last in range(1, 100)]
    said = answer(question(longest), many, ZONE)
    assert len(said) <= 512
    assert DNS(said).ancount == MOST_ADDRESSES
    for kind in ("AAAA", "ALL"):
        said = answer(question(longest, kind), [*many, *(f"fd01::{last}" for last in range(1, 100))], ZONE)
        assert len(said) <= 512
        assert DNS(said).ancount == MOST_IPV6_ADDRESSES


def test_only_the_answer_to_the_question_counts() -> None:
    mine = question()
    said = with_identity(answer(mine, ["10.99.0.7"], ZONE), 99)
    assert answers(said, 99, mine)
    assert not answers(said, 98, mine)
    assert not answers(said, 99, question("other.example"))
    assert not answers(said, 99, question(kind="AAAA"))
    assert not answers(with_identity(asked(), 99), 99, mine)
    assert not answers(said[:5], 99, mine)


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (b"", None),
        (asked()[:11], None),
        (bytes(5000), None),
        (answer(question(), [], ZONE), None),
        (asked()[:14], 1),
        (bytes(DNS(id=7, opcode=2, qd=DNSQR(qname="a.example"))), 4),
        (bytes(DNS(id=7, qd=[])), 1),
        # A name that points to itself.
        (asked()[:12] + b"\xc0\x0c\x00\x01\x00\x01", 1),
    ],
    ids=["nothing", "half a header", "too much", "an answer", "half a name", "another verb", "no question", "a loop"],
)
def test_what_is_no_question_gets_a_word_at_most(packet: bytes, code: int | None) -> None:
    with pytest.raises(NoQuestion) as found:
        read_question(packet)
    said = found.value.answer
    assert (DNS(said).rcode if said else None) == code
    assert len(said) <= 12


@given(st.binary(max_size=600))
def test_no_packet_does_more_than_be_no_question(packet: bytes) -> None:
    try:
        said = refusal(read_question(packet))
    except NoQuestion as error:
        said = error.answer
    assert len(said) <= 12 + 255 + 5


@given(st.binary(max_size=300))
def test_no_name_does_more_than_be_no_question(name: bytes) -> None:
    packet = asked()[:12] + name + b"\x00\x01\x00\x01"
    try:
        found = read_question(packet)
    except NoQuestion:
        return
    for said in (answer(found, ["10.99.0.7"], ZONE), no_such_name(found, ZONE)):
        assert len(said) <= 512

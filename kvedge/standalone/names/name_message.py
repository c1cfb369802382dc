"""Questions about names and their answers, as they go over the wire: the door to `dnslib`.

Called by the name server. Pure. Of a question no more is read than its header and the first of its names: what a guest
sends is small, and costs as much as it is long.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from dnslib import AAAA, CLASS, QTYPE, RCODE, RR, SOA, A, DNSError, DNSHeader, DNSQuestion, DNSRecord
from dnslib.buffer import BufferError as ShortMessage
from dnslib.dns import DNSBuffer
from msgspec import Struct

LONGEST_QUESTION: Final = 4096
NO_NAME: Final = RCODE.NXDOMAIN
FAILED: Final = RCODE.SERVFAIL
REFUSED: Final = RCODE.REFUSED
# Of an answer by UDP, which has 512 bytes, so many fit in beside the longest name; those of IPv6 are longer.
MOST_ADDRESSES: Final = 14
MOST_IPV6_ADDRESSES: Final = 8
# Guests ask again soon: what is behind a name changes.
SECONDS: Final = 5
_VERSIONS: Final = {QTYPE.A: (4,), QTYPE.AAAA: (6,), QTYPE.ANY: (4, 6)}
_HEADER_LENGTH: Final = 12
_LONGEST_NAME: Final = 255


class Question(Struct, frozen=True):
    """What is asked: the labels of a name in lower case, and its addresses of which versions of IP are wanted."""

    labels: tuple[str, ...]
    wanted_versions: tuple[int, ...]
    header: DNSHeader
    asked: DNSQuestion


class NoQuestion(Exception):
    """A packet that is not one; `answer` is what to say to it, empty for nothing."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__("no question")
        self.answer = answer


def read_question(packet: bytes) -> Question:
    """The question of a packet.

    Raises:
        NoQuestion: there is none that can be answered.
    """
    if not _HEADER_LENGTH <= len(packet) <= LONGEST_QUESTION:
        raise NoQuestion
    buffer = DNSBuffer(packet)
    header = DNSHeader.parse(buffer)
    if header.qr:
        # Answers are never answered.
        raise NoQuestion
    if header.opcode != 0:
        raise NoQuestion(_refusal(header, RCODE.NOTIMP))
    try:
        if header.q != 1:
            raise NoQuestion(_refusal(header, RCODE.FORMERR))
        asked = DNSQuestion.parse(buffer)
    except (DNSError, ShortMessage, ValueError, IndexError, struct.error) as error:
        raise NoQuestion(_refusal(header, RCODE.FORMERR)) from error
    labels = tuple(label.decode("latin-1").lower() for label in asked.qname.label)
    if sum(len(label) + 1 for label in labels) >= _LONGEST_NAME:
        raise NoQuestion(_refusal(header, RCODE.FORMERR))
    wanted = _VERSIONS.get(asked.qtype, ()) if asked.qclass == CLASS.IN else ()
    return Question(labels, wanted, header, asked)


def answer(question: Question, addresses: Sequence[str], zone: str) -> bytes:
    """These addresses, when they are what is asked for; else that there is nothing of that type."""
    reply, name = _reply(question), question.asked.qname
    known = {version: [each for each in addresses if (":" in each) == (version == 6)] for version in (4, 6)}
    ipv6 = known[6][:MOST_IPV6_ADDRESSES] if 6 in question.wanted_versions else []
    # A client that asks for both gets them in one answer.
    room = MOST_ADDRESSES - 2 * len(ipv6)
    for address in known[4][: max(0, room)] if 4 in question.wanted_versions else []:
        reply.add_answer(RR(name, QTYPE.A, CLASS.IN, SECONDS, A(address)))
    for address in ipv6:
        reply.add_answer(RR(name, QTYPE.AAAA, CLASS.IN, SECONDS, AAAA(address)))
    if not reply.rr:
        reply.add_auth(_authority(zone))
    return bytes(reply.pack())


def no_such_name(question: Question, zone: str) -> bytes:
    """The name does not exist, and that may be remembered for a while."""
    reply = _reply(question)
    reply.header.rcode = NO_NAME
    reply.add_auth(_authority(zone))
    return bytes(reply.pack())


def refusal(question: Question, code: int = FAILED) -> bytes:
    """There is no answer, for now."""
    reply = _reply(question)
    reply.header.rcode = code
    reply.header.aa = 0
    return bytes(reply.pack())


def with_identity(packet: bytes, identity: int) -> bytes:
    """The same message under another number."""
    return struct.pack("!H", identity) + packet[2:]


def answers(packet: bytes, identity: int, question: Question) -> bool:
    """Whether this is the answer of another server to that question, asked under that number."""
    if len(packet) < _HEADER_LENGTH:
        return False
    buffer = DNSBuffer(packet)
    header = DNSHeader.parse(buffer)
    if header.id != identity or not header.qr or header.q != 1:
        return False
    try:
        asked = DNSQuestion.parse(buffer)
    except (DNSError, ShortMessage, ValueError, IndexError, struct.error):
        return False
    return bool(asked.qname == question.asked.qname and asked.qtype == question.asked.qtype)


def is_without_result(packet: bytes) -> bool:
    """Whether another server's answer is that there is no such name, or that it cannot tell."""
    return (packet[3] & 0xF) in (NO_NAME, FAILED, REFUSED)


def _reply(question: Question) -> DNSRecord:
    asked = question.header
    header = DNSHeader(id=asked.id, bitmap=0, qr=1, aa=1, rd=asked.rd, ra=1)
    return DNSRecord(header, q=question.asked)


def _refusal(asked: DNSHeader, code: int) -> bytes:
    header = DNSHeader(id=asked.id, bitmap=0, qr=1, rd=asked.rd, ra=1, rcode=code)
    header.opcode = asked.opcode
    return bytes(DNSRecord(header).pack())


def _authority(zone: str) -> RR:
    times = (1, 7200, 1800, 86400, SECONDS)
    return RR(zone, QTYPE.SOA, CLASS.IN, SECONDS, SOA(f"ns.dns.{zone}", f"hostmaster.{zone}", times))

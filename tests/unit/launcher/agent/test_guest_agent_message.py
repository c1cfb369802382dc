"""What a guest says of itself, and what is left of it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.launcher.agent.agent_schedule import Question
from kvedge.launcher.agent.guest_agent_message import (
    LONGEST_ANSWER,
    LONGEST_TEXT,
    MOST_ADDRESSES,
    MOST_COMMANDS,
    MOST_DISKS,
    MOST_FILESYSTEMS,
    MOST_INTERFACES,
    MOST_USERS,
    REQUIRED_COMMANDS,
    AgentFacts,
    BadAnswer,
    clean,
    lacking,
    parse_interfaces,
    parse_system,
    parse_time_zone,
    read_answer,
    surplus,
    take,
)
from kvedge.rpc.launcher_pb2 import DomainStatus

# What a handler takes in one message.
LARGEST_MESSAGE = 1 << 20


def nic(name: str, mac: str | None, *addresses: str) -> dict[str, Any]:
    found = [{"ip-address": text, "ip-address-type": "ipv4", "prefix": 24} for text in addresses]
    return {"name": name, "hardware-address": mac, "ip-addresses": found, "statistics": {"rx-bytes": 1}}


def all_facts(answers: dict[Question, Any]) -> AgentFacts:
    facts = AgentFacts()
    for question, value in answers.items():
        facts = take(facts, question, value)
    return facts


def test_interfaces_come_with_their_addresses_and_without_loopback() -> None:
    found = [
        nic("lo", "00:00:00:00:00:00", "127.0.0.1", "::1"),
        nic("eth0", "02:AB:00:00:00:01", "fe80::1%eth0", "10.0.0.2"),
    ]
    (entry,) = parse_interfaces(found)
    assert (entry.mac, entry.guest_name, entry.source) == ("02:ab:00:00:00:01", "eth0", "guest-agent")
    assert list(entry.addresses) == ["10.0.0.2", "fe80::1"], "the IPv4 address is the one to show first"


def test_an_interface_without_addresses_has_still_a_mac() -> None:
    (entry,) = parse_interfaces([{"name": "eth0", "hardware-address": "02:00:00:00:00:01"}])
    assert list(entry.addresses) == []


def test_a_guest_cannot_make_it_long() -> None:
    long = "\U0001f980" * 100_000
    disk = {"serial": long, "bus-type": long}
    mount = {"name": long, "mountpoint": long, "type": long, "used-bytes": 1 << 80, "disk": [disk] * 1000}
    facts = all_facts(
        {
            Question.INFO: {"version": long, "supported_commands": [{"name": long, "enabled": True}] * 5000},
            Question.SYSTEM: dict.fromkeys(("name", "id", "version", "kernel-release", "machine"), long),
            Question.HOST_NAME: {"host-name": long},
            Question.TIME_ZONE: {"zone": long, "offset": 60},
            Question.INTERFACES: [nic(long, "02:00:00:00:00:01", *["10.0.0.1"] * 1000)] * 5000,
            Question.USERS: [{"user": long, "domain": long, "login-time": 1e300}] * 5000,
            Question.FILESYSTEMS: [mount] * 5000,
        }
    )
    assert facts.users is not None
    assert facts.filesystems is not None
    assert facts.commands is not None
    assert (len(facts.users), len(facts.filesystems), len(facts.commands)) == (
        MOST_USERS,
        MOST_FILESYSTEMS,
        MOST_COMMANDS,
    )
    assert len(facts.interfaces) == MOST_INTERFACES
    assert all(len(entry.addresses) <= MOST_ADDRESSES for entry in facts.interfaces)
    assert all(len(entry.disks) <= MOST_DISKS for entry in facts.filesystems)
    assert len(facts.hostname.encode()) == LONGEST_TEXT
    assert facts.filesystems[0].used_bytes == 0
    status = DomainStatus(addresses=facts.interfaces)
    facts.fill(status)
    for message in (facts.info(), status):
        assert message.ByteSize() < LARGEST_MESSAGE
    assert sum(entry.ByteSize() for entry in facts.users) < LARGEST_MESSAGE
    assert sum(entry.ByteSize() for entry in facts.filesystems) < LARGEST_MESSAGE


def test_what_is_left_out_is_told() -> None:
    assert surplus(Question.USERS, [{}] * MOST_USERS) == ""
    assert (
        surplus(Question.USERS, [{}] * (MOST_USERS + 1)) == "has more than 256 entries, of which the rest is left out"
    )
    assert surplus(Question.INFO, [{}] * 10_000) == ""
    assert surplus(Question.USERS, "x" * 10_000) == ""


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert clean("Evil\x1b[2J\n\u202eOS") == "Evil[2JOS"
    assert clean("half a pair \ud800") == "half a pair "


def test_a_text_is_cut_between_characters() -> None:
    assert clean("ä" * 1000) == "ä" * (LONGEST_TEXT // 2)
    assert clean("aä" * 1000, 4) == "aäa"


def test_facts_become_fields() -> None:
    facts = all_facts(
        {
            Question.INFO: {"version": "7.2.22", "supported_commands": [{"name": "guest-ping", "enabled": True}]},
            Question.SYSTEM: {"id": "debian", "pretty-name": "Debian 12", "version": 12, "kernel-release": "6.1"},
            Question.HOST_NAME: {"host-name": "web"},
            Question.TIME_ZONE: {"zone": "CET", "offset": 3600},
            Question.USERS: [{"user": "root", "login-time": 1567157541.25}] * 12,
            Question.FILESYSTEMS: [
                {
                    "name": "vda1",
                    "mountpoint": "/",
                    "type": "ext4",
                    "used-bytes": 5,
                    "total-bytes": 7,
                    "disk": [{"serial": "s1", "bus-type": "virtio", "bus": 0}],
                }
            ]
            * 12,
            Question.FREEZE_STATUS: "thawed",
        }
    )
    info = facts.info()
    assert (info.os_id, info.os_pretty_name, info.hostname, info.timezone) == (
        "debian",
        "Debian 12",
        "web",
        "CET, 3600",
    )
    assert (info.os_version, info.kernel_release, info.agent_version) == ("", "6.1", "7.2.22")
    assert [(command.name, command.enabled) for command in info.commands] == [("guest-ping", True)]
    assert (len(info.users), len(info.filesystems)) == (10, 10), "the summary has ten of them"
    assert (info.users[0].name, info.users[0].login_unix_seconds) == ("root", 1567157541.25)
    mount = info.filesystems[0]
    assert (mount.disk_name, mount.mount_point, mount.type, mount.used_bytes, mount.total_bytes) == (
        "vda1",
        "/",
        "ext4",
        5,
        7,
    )
    assert [(disk.serial, disk.bus_type) for disk in mount.disks] == [("s1", "virtio")]
    status = DomainStatus()
    facts.fill(status)
    assert (status.guest.os_id, status.guest.hostname, status.fs_freeze_status) == ("debian", "web", "thawed")
    assert list(status.agent_lacks) == [name for name in REQUIRED_COMMANDS if name != "guest-ping"]


def test_the_load_is_no_news_and_what_makes_no_sense_of_it_is_left_out() -> None:
    said = {"load1m": 0.25, "load5m": 3, "load15m": 12.0004}
    facts = take(AgentFacts(), Question.LOAD, said)
    assert facts.load == {"load.1m": 250, "load.5m": 3000, "load.15m": 12000}
    assert facts == AgentFacts(), "each answer would be a write to the API"
    strange = {"load1m": -1, "load5m": float("nan"), "load15m": True}
    assert take(facts, Question.LOAD, strange).load == {}
    assert take(facts, Question.LOAD, {"load1m": 1e300, "load5m": "1", "load15m": None}).load == {}


def test_an_agent_that_has_not_said_what_it_can_lacks_nothing() -> None:
    assert lacking(AgentFacts()) == []
    disabled = [{"name": name, "enabled": name != "guest-ping"} for name in REQUIRED_COMMANDS]
    assert lacking(take(AgentFacts(), Question.INFO, {"supported_commands": disabled})) == ["guest-ping"]


def test_a_time_zone_without_name_or_sense() -> None:
    assert parse_time_zone({"offset": -3600}) == ", -3600"
    for value in ({"zone": "x"}, {"zone": "x", "offset": True}, {"offset": 10**9}, [], None):
        assert parse_time_zone(value) == ""


def test_an_answer_is_what_was_returned() -> None:
    assert read_answer('{"return": {"version": "7.2"}}') == {"version": "7.2"}
    assert read_answer('{"return": null}') is None


WRONG = {
    "nothing": ("", "is no JSON"),
    "half of it": ('{"return": [', "is no JSON"),
    "deeply nested": ("[" * 500_000, "is no JSON"),
    "a number longer than Python reads": ('{"return": ' + "1" * 10_000 + "}", "is no JSON"),
    "a list": ("[]", "is no answer"),
    "a text": ('"x"', "is no answer"),
    "an error": ('{"error": {"class": "x"}}', "is no answer"),
    "too long": ('{"return": "' + "x" * LONGEST_ANSWER + '"}', "is longer than 1024 KiB"),
}


@pytest.mark.parametrize(("text", "why"), WRONG.values(), ids=WRONG)
def test_what_is_no_answer_is_refused_in_our_own_words(text: str, why: str) -> None:
    with pytest.raises(BadAnswer) as refused:
        read_answer(text)
    assert str(refused.value) == why


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)
keys = st.sampled_from(
    [
        "version",
        "supported_commands",
        "name",
        "enabled",
        "id",
        "host-name",
        "zone",
        "offset",
        "hardware-address",
        "ip-addresses",
        "ip-address",
        "user",
        "login-time",
        "mountpoint",
        "used-bytes",
        "total-bytes",
        "disk",
        "serial",
        "bus-type",
        "frozen",
    ]
)
plausible = st.recursive(
    anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


@given(st.sampled_from(Question), plausible)
def test_nothing_a_guest_says_breaks_the_parser(question: Question, value: Any) -> None:
    facts = take(AgentFacts(), question, value)
    surplus(question, value)
    assert facts.freeze_status in ("", "frozen", "thawed")
    for entry in facts.interfaces:
        assert entry.mac or entry.addresses
    for user in facts.users or ():
        assert math.isfinite(user.login_unix_seconds)
    status = DomainStatus()
    facts.fill(status)
    assert facts.info().ByteSize() < LARGEST_MESSAGE


@given(st.text(st.characters(), max_size=200) | plausible.map(lambda value: json.dumps({"return": value})))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        read_answer(text)
    except BadAnswer:
        return


def test_a_system_that_is_no_object_is_empty() -> None:
    assert parse_system([]).os_id == ""

"""What a guest agent says, cut down to what a guest can be believed: short texts, few of them, real addresses.

Called by `guest_agent` with the agent's answers as they came. Pure. Everything here may have been made up by a hostile
guest to hurt the programs that store or show it.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace  # noqa: TID251 - of dataclasses: launchers do without msgspec
from typing import Any, Final

from kvedge.launcher.agent.agent_schedule import Question
from kvedge.rpc.launcher_pb2 import (
    AgentCommand,
    DomainStatus,
    GuestAddress,
    GuestDisk,
    GuestFilesystem,
    GuestInfo,
    GuestUser,
)

# In bytes, of each text.
LONGEST_TEXT: Final = 256
# Of JSON text: a host of several hundred containers fills half of it with its interfaces.
LONGEST_ANSWER: Final = 1 << 20
MOST_INTERFACES: Final = 64
MOST_ADDRESSES: Final = 16
MOST_COMMANDS: Final = 256
MOST_USERS: Final = 256
MOST_FILESYSTEMS: Final = 256
MOST_DISKS: Final = 8
# As KubeVirt has it: whole lists have calls of their own.
MOST_IN_SUMMARY: Final = 10
# Without these an agent is of little use (KubeVirt's list).
REQUIRED_COMMANDS: Final = (
    "guest-ping",
    "guest-get-time",
    "guest-info",
    "guest-shutdown",
    "guest-network-get-interfaces",
    "guest-get-fsinfo",
    "guest-get-host-name",
    "guest-get-users",
    "guest-get-timezone",
    "guest-get-osinfo",
)

_SYSTEM_KEYS: Final = {
    "os_name": "name",
    "os_id": "id",
    "os_version": "version",
    "os_version_id": "version-id",
    "os_pretty_name": "pretty-name",
    "kernel_release": "kernel-release",
    "kernel_version": "kernel-version",
    "machine": "machine",
}
_FREEZE_STATES: Final = ("frozen", "thawed")
# By libvirt's names: how many processes wanted to run, over the last so many minutes.
_LOADS: Final = {"load.1m": "load1m", "load.5m": "load5m", "load.15m": "load15m"}
_LARGEST_LOAD: Final = 1_000_000
_LARGEST_NUMBER: Final = (1 << 63) - 1
# East of Greenwich and west of it; no place is farther away.
_LARGEST_OFFSET: Final = 24 * 3600
_MOST: Final = {
    Question.INTERFACES: MOST_INTERFACES,
    Question.USERS: MOST_USERS,
    Question.FILESYSTEMS: MOST_FILESYSTEMS,
}


class BadAnswer(Exception):
    """An answer that is none; the text says why, in our words."""


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What an agent has said so far; None and empty texts where it has not. The messages in it are never changed."""

    version: str = ""
    commands: tuple[AgentCommand, ...] | None = None
    system: GuestInfo | None = None
    hostname: str = ""
    timezone: str = ""
    interfaces: tuple[GuestAddress, ...] = ()
    users: tuple[GuestUser, ...] | None = None
    filesystems: tuple[GuestFilesystem, ...] | None = None
    freeze_status: str = ""
    # In thousandths. It changes with each answer, and is no news that anybody is told of: whoever wants it asks.
    load: Mapping[str, int] = field(default_factory=dict, compare=False)

    def info(self) -> GuestInfo:
        """All in one, with the first few users and file systems."""
        info = self.describe_system()
        info.agent_version = self.version
        info.timezone = self.timezone
        info.fs_freeze_status = self.freeze_status
        info.commands.extend(self.commands or ())
        info.users.extend((self.users or ())[:MOST_IN_SUMMARY])
        info.filesystems.extend((self.filesystems or ())[:MOST_IN_SUMMARY])
        return info

    def describe_system(self) -> GuestInfo:
        """The operating system and the host name."""
        info = GuestInfo()
        if self.system is not None:
            info.CopyFrom(self.system)
        info.hostname = self.hostname
        return info

    def fill(self, status: DomainStatus) -> None:
        """Put in what belongs to the domain's status."""
        if self.system is not None:
            status.guest.CopyFrom(self.describe_system())
        status.fs_freeze_status = self.freeze_status
        status.agent_lacks.extend(lacking(self))


def read_answer(text: str) -> Any:
    """What the agent returned, from its answer as JSON text.

    Raises:
        BadAnswer: when it is too long, no JSON, or no answer.
    """
    if len(text) > LONGEST_ANSWER:
        raise BadAnswer(f"is longer than {LONGEST_ANSWER >> 10} KiB")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("is no JSON") from error
    if not isinstance(answer, dict) or "return" not in answer:
        raise BadAnswer("is no answer")
    return answer["return"]


def take(facts: AgentFacts, question: Question, value: Any) -> AgentFacts:
    """The facts with the answer to one question, as far as it makes sense."""
    match question:
        case Question.INFO:
            found = value if isinstance(value, dict) else {}
            return replace(facts, version=clean(found.get("version")), commands=tuple(_commands(found)))
        case Question.SYSTEM:
            return replace(facts, system=parse_system(value))
        case Question.HOST_NAME:
            return replace(facts, hostname=clean(value.get("host-name")) if isinstance(value, dict) else "")
        case Question.TIME_ZONE:
            return replace(facts, timezone=parse_time_zone(value))
        case Question.INTERFACES:
            return replace(facts, interfaces=tuple(parse_interfaces(value)))
        case Question.USERS:
            return replace(facts, users=tuple(_users(value)))
        case Question.FILESYSTEMS:
            return replace(facts, filesystems=tuple(_filesystems(value)))
        case Question.FREEZE_STATUS:
            return replace(facts, freeze_status=value if value in _FREEZE_STATES else "")
        case Question.LOAD:
            return replace(facts, load=parse_load(value))


def surplus(question: Question, value: Any) -> str:
    """What `take` leaves out because there is too much of it; empty when that is nothing."""
    most = _MOST.get(question)
    if most is None or not isinstance(value, list) or len(value) <= most:
        return ""
    return f"has more than {most} entries, of which the rest is left out"


def lacking(facts: AgentFacts) -> list[str]:
    """The commands that every agent needs and this one has not; none as long as it has not said."""
    if facts.commands is None:
        return []
    enabled = {command.name for command in facts.commands if command.enabled}
    return [name for name in REQUIRED_COMMANDS if name not in enabled]


def clean(value: object, longest: int = LONGEST_TEXT) -> str:
    """A text of a guest: printable characters only, and not too many of them."""
    if not isinstance(value, str):
        return ""
    printable = "".join(character for character in value[:longest] if character.isprintable())
    return printable.encode(errors="ignore")[:longest].decode(errors="ignore")


def clean_lines(text: str, longest: int) -> str:
    """A text of a guest with its lines: printable characters only, and not too many of them."""
    kept = "".join(letter for letter in text[:longest] if letter.isprintable() or letter in "\n\t")
    return kept.encode(errors="ignore")[:longest].decode(errors="ignore")


def parse_system(value: object) -> GuestInfo:
    """The operating system."""
    found = value if isinstance(value, Mapping) else {}
    info = GuestInfo()
    for name, key in _SYSTEM_KEYS.items():
        setattr(info, name, clean(found.get(key)))
    return info


def parse_time_zone(value: object) -> str:
    """As KubeVirt writes it: the zone's name and its offset in seconds."""
    if not isinstance(value, Mapping):
        return ""
    offset = value.get("offset")
    if isinstance(offset, bool) or not isinstance(offset, int) or abs(offset) > _LARGEST_OFFSET:
        return ""
    return f"{clean(value.get('zone'))}, {offset}"


def parse_interfaces(value: object) -> list[GuestAddress]:
    """The guest's NICs, IPv4 addresses first; loopback and what cannot be read is left out."""
    parsed = []
    for entry in _objects(value, MOST_INTERFACES):
        found = [_address(item) for item in _objects(entry.get("ip-addresses"), MOST_ADDRESSES)]
        addresses = sorted((item for item in found if item is not None), key=lambda item: item.version)
        mac = _mac(entry.get("hardware-address"))
        if mac or addresses:
            texts = [str(item) for item in addresses]
            name = clean(entry.get("name"))
            parsed.append(GuestAddress(mac=mac, guest_name=name, addresses=texts, source="guest-agent"))
    return parsed


def parse_load(value: object) -> dict[str, int]:
    """How busy the guest is, in thousandths of a process; what makes no sense is left out."""
    found = value if isinstance(value, Mapping) else {}
    loads = {name: found.get(key) for name, key in _LOADS.items()}
    return {
        name: round(load * 1000)
        for name, load in loads.items()
        if isinstance(load, int | float) and not isinstance(load, bool) and 0 <= load <= _LARGEST_LOAD
    }


def _commands(found: Mapping[str, Any]) -> Iterator[AgentCommand]:
    for entry in _objects(found.get("supported_commands"), MOST_COMMANDS):
        if name := clean(entry.get("name")):
            yield AgentCommand(name=name, enabled=entry.get("enabled") is True)


def _users(value: object) -> Iterator[GuestUser]:
    for entry in _objects(value, MOST_USERS):
        if name := clean(entry.get("user")):
            seconds = _seconds(entry.get("login-time"))
            yield GuestUser(name=name, domain=clean(entry.get("domain")), login_unix_seconds=seconds)


def _filesystems(value: object) -> Iterator[GuestFilesystem]:
    for entry in _objects(value, MOST_FILESYSTEMS):
        yield GuestFilesystem(
            disk_name=clean(entry.get("name")),
            mount_point=clean(entry.get("mountpoint")),
            type=clean(entry.get("type")),
            used_bytes=_count(entry.get("used-bytes")),
            total_bytes=_count(entry.get("total-bytes")),
            disks=[
                GuestDisk(serial=clean(disk.get("serial"), 64), bus_type=clean(disk.get("bus-type"), 64))
                for disk in _objects(entry.get("disk"), MOST_DISKS)
            ],
        )


def _objects(value: object, most: int) -> list[Mapping[str, Any]]:
    entries = value[:most] if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _count(value: object) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_NUMBER
    return value if fits and isinstance(value, int) else 0


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= _LARGEST_NUMBER and math.isfinite(value) else 0.0


def _address(entry: Mapping[str, Any]) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    text = clean(entry.get("ip-address"))
    try:
        # A zone (fe80::1%eth0) would be the guest's own word.
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return None if address.is_loopback or address.is_unspecified or address.is_multicast else address


def _mac(value: object) -> str:
    text = clean(value).lower()
    parts = text.split(":")
    fits = len(parts) == 6 and all(len(part) == 2 and set(part) <= set("0123456789abcdef") for part in parts)
    return text if fits and text != "00:00:00:00:00:00" else ""

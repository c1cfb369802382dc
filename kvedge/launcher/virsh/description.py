"""What the launcher says of its domain, decoded by hand.

Made by `virsh_command`, read by its views. Imports only what is built into the interpreter.
"""

from __future__ import annotations

import time

from kvedge.launcher.grpc_call import OK, UnaryCall
from kvedge.launcher.launcher_call import SERVICE, carry, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Its document is shorter than three quarters of that, its lists are short.
_LONGEST_ANSWER = 1 << 20
_SECONDS = 10
_UNIMPLEMENTED = 12
# A launcher to which a guest has just moved replaces itself, and one that was killed starts anew: both are awaited.
_RESTART_SECONDS = 10.0
_POLL_SECONDS = 0.1


class Unanswered(Exception):
    """The launcher could not be asked, or did not answer; the text is for the user."""


class Vcpu:
    """Where a vCPU runs."""

    __slots__ = ("host_cpu", "may_use", "number", "run_ns", "waits")

    def __init__(self, message: bytes) -> None:
        found = dict(fields(message))
        self.number = _number(found, 1)
        self.waits = bool(_number(found, 2))
        self.host_cpu = _number(found, 3)
        self.run_ns = _number(found, 4)
        self.may_use = _text(found, 5)


class Address:
    """An address of a NIC, and who told of it: `lease` or `guest-agent`."""

    __slots__ = ("address", "guest_name", "interface", "mac", "source")

    def __init__(self, interface: str, mac: str, guest_name: str, source: str, address: str) -> None:
        self.interface = interface
        self.mac = mac
        self.guest_name = guest_name
        self.source = source
        self.address = address


class Description:
    """The domain; without a name when there is none yet."""

    def __init__(self, message: bytes) -> None:
        found = list(fields(message))
        single = dict(found)
        self.name = _text(single, 1)
        self.uuid = _text(single, 2)
        self.id = _number(single, 3)
        self.state = _text(single, 4)
        self.reason = _text(single, 5)
        self.document = _text(single, 6)
        self.libvirt = _number(single, 9)
        self.qemu = _number(single, 10)
        self.host_cpus = _number(single, 11)
        self.vcpus = [Vcpu(value) for number, value in found if number == 7 and isinstance(value, bytes)]
        parts = [value for number, value in found if number == 8 and isinstance(value, bytes)]
        self.addresses = [address for part in parts for address in _addresses(part)]

    def is_called(self, word: str) -> bool:
        """Whether a word on the command line means this domain: its name, UUID or id."""
        return bool(self.name) and word in (self.name, self.uuid, str(self.id) if self.id else self.name)


def ask(socket: str) -> Description:
    """What the launcher behind this socket says.

    Raises:
        Unanswered: when it says nothing.
    """
    call = _call(socket)
    if call.status == _UNIMPLEMENTED:
        raise Unanswered(
            "this guest's launcher is of a version of kvedge that cannot be asked for its domain; "
            "it can once the VM has been restarted"
        )
    if call.status != OK:
        raise Unanswered(call.detail)
    return Description(call.reply)


def _call(socket: str) -> UnaryCall:
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        call = UnaryCall(f"{SERVICE}DescribeDomain", b"", _SECONDS, _LONGEST_ANSWER)
        try:
            carry(call, socket, _SECONDS + 1)
        except OSError as error:
            is_away = isinstance(error, FileNotFoundError | ConnectionError)
            if not is_away or time.monotonic() >= deadline:
                raise Unanswered(f"the launcher cannot be asked: {error}") from error
        else:
            return call
        time.sleep(_POLL_SECONDS)


def _addresses(message: bytes) -> list[Address]:
    found = list(fields(message))
    single = dict(found)
    about = (_text(single, 1), _text(single, 2), _text(single, 3), _text(single, 5))
    addresses = [value.decode(errors="replace") for number, value in found if number == 4 and isinstance(value, bytes)]
    return [Address(*about, address) for address in addresses]


def _number(found: Mapping[int, int | bytes], number: int) -> int:
    value = found.get(number, 0)
    return value if isinstance(value, int) else 0


def _text(found: Mapping[int, int | bytes], number: int) -> str:
    value = found.get(number, b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else ""

"""How small programs in the launcher's container ask their launcher: its socket, and messages decoded by hand.

Used by `guest_probe` and `virsh`, which start often or must start fast. Imports only what is built into the
interpreter.
"""

from __future__ import annotations

# The public module costs as much again for its enumerations.
import _socket

from kvedge.launcher.grpc_call import UnaryCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SERVICE = "/kvedge.launcher.v1.Launcher/"
# As launcher_options has it, which would have to be told who the guest is.
SOCKET = "/var/run/kubevirt/sockets/launcher-sock"


def carry(call: UnaryCall, path: str, seconds: float) -> None:
    """Carry bytes until the call is done.

    Raises:
        OSError: when there is no launcher, or it does not answer in time.
    """
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(path)
        while call.status is None:
            if data := call.to_send():
                connection.sendall(data)
            call.receive(connection.recv(1 << 16))
    finally:
        connection.close()


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message that has numbers and texts; what a newer launcher may add ends the list."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        if key & 7 not in (0, 2):
            return
        value, at = _read_varint(message, at)
        if key & 7 == 0:
            yield key >> 3, value
        else:
            yield key >> 3, message[at : at + value]
            at += value


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    made = b""
    while number >= 0x80:
        made += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return made + bytes((number,))


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not message[at - 1] & 0x80:
            break
    return value, at

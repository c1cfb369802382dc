"""The program of a probe that only the guest's agent can answer: `kvedge launcher-probe`, in the launcher's container.

Started by the kubelet, or by the node agent of one box, every few seconds beside each guest, and so as small as can be:
it asks the launcher by its socket and exits as the guest's program did, 0 when the agent answers a ping, 1 when the
guest could not be asked. What it prints goes into an event. Imports only what is built into the interpreter.
"""

from __future__ import annotations

# The public module costs as much again for its enumerations.
import _socket
import os
import sys

from kvedge.launcher.grpc_call import OK, UnaryCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_USAGE = """\
usage: kvedge launcher-probe [--timeout-seconds N] --guest-agent-ping
       kvedge launcher-probe [--timeout-seconds N] --command PROGRAM [-- ARGUMENT...]

Asks the guest of this launcher Pod by its agent: whether the agent answers, or how a program in the guest ends.
"""
_SERVICE = "/kvedge.launcher.v1.Launcher/"
# As launcher_options has it, which would have to be told who the guest is.
_SOCKET = "/var/run/kubevirt/sockets/launcher-sock"
_FAILED = 1
_WRONG_USAGE = 2
# Beside the guest's own time; the kubelet or the node agent gives this program one second more as well.
_OWN_SECONDS = 0.8
_LONGEST_SECONDS = 600


def main(arguments: list[str]) -> int:
    """Ask; the exit code."""
    asked = _parse(arguments)
    if asked is None:
        sys.stderr.write(_USAGE)
        return _WRONG_USAGE
    seconds, command, path = asked
    try:
        call = _call(command, seconds)
        _carry(call, path, seconds + _OWN_SECONDS)
    except (OSError, ValueError) as error:
        return _say(f"the launcher cannot be asked: {error}")
    if call.status != OK:
        return _say(call.detail)
    code, output = _read_reply(call.reply)
    if output:
        sys.stdout.buffer.write(output + b"\n")
    return code


def _say(text: str) -> int:
    sys.stdout.buffer.write(text.encode(errors="replace") + b"\n")
    return _FAILED


def _parse(arguments: list[str]) -> tuple[int, list[str], str] | None:
    """Seconds, the command (none for a ping) and the socket; None when it makes no sense."""
    seconds, command, path, ping = 1, [""], _SOCKET, False
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            command += rest
        elif argument == "--guest-agent-ping":
            ping = True
        elif argument == "--timeout-seconds":
            text = next(rest, "")
            if not text.isdecimal():
                return None
            seconds = max(1, min(int(text), _LONGEST_SECONDS))
        elif argument == "--command":
            command[0] = next(rest, "")
        elif argument == "--socket":
            path = next(rest, "")
        else:
            return None
    if ping == bool(command[0]):
        return None
    return seconds, [] if ping else command, path


def _call(command: list[str], seconds: int) -> UnaryCall:
    if not command:
        return UnaryCall(f"{_SERVICE}GuestPing", b"\x08" + _varint(seconds), seconds + 1)
    program, *arguments = (os.fsencode(word) for word in command)
    # The fields of GuestExecRequest, as protobuf writes them.
    message = b"\x0a" + _varint(len(program)) + program
    for word in arguments:
        message += b"\x12" + _varint(len(word)) + word
    return UnaryCall(f"{_SERVICE}GuestExec", message + b"\x18" + _varint(seconds), seconds + 1)


def _carry(call: UnaryCall, path: str, seconds: float) -> None:
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


def _read_reply(reply: bytes) -> tuple[int, bytes]:
    """Exit code and output of a GuestExecReply; nothing is in that to a ping."""
    found = dict(_fields(reply))
    code, output = found.get(1, 0), found.get(2, b"")
    return (code if isinstance(code, int) else _FAILED), (output if isinstance(output, bytes) else b"")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
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


def _varint(number: int) -> bytes:
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

"""The program of a probe that only the guest's agent can answer: `kvedge launcher-probe`, in the launcher's container.

Started by the kubelet, or by the node agent of one box, every few seconds beside each guest, and so as small as can be:
it asks the launcher by its socket and exits as the guest's program did, 0 when the agent answers a ping, 1 when the
guest could not be asked. What it prints goes into an event. Imports only what is built into the interpreter.
"""

from __future__ import annotations

import os
import sys

from kvedge.launcher.grpc_call import OK, UnaryCall
from kvedge.launcher.launcher_call import SERVICE, SOCKET, carry, fields, varint

_USAGE = """\
usage: kvedge launcher-probe [--timeout-seconds N] --guest-agent-ping
       kvedge launcher-probe [--timeout-seconds N] --command PROGRAM [-- ARGUMENT...]

Asks the guest of this launcher Pod by its agent: whether the agent answers, or how a program in the guest ends.
"""
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
        carry(call, path, seconds + _OWN_SECONDS)
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
    seconds, command, path, ping = 1, [""], SOCKET, False
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
        return UnaryCall(f"{SERVICE}GuestPing", b"\x08" + varint(seconds), seconds + 1)
    program, *arguments = (os.fsencode(word) for word in command)
    # The fields of GuestExecRequest, as protobuf writes them.
    message = b"\x0a" + varint(len(program)) + program
    for word in arguments:
        message += b"\x12" + varint(len(word)) + word
    return UnaryCall(f"{SERVICE}GuestExec", message + b"\x18" + varint(seconds), seconds + 1)


def _read_reply(reply: bytes) -> tuple[int, bytes]:
    """Exit code and output of a GuestExecReply; nothing is in that to a ping."""
    found = dict(fields(reply))
    code, output = found.get(1, 0), found.get(2, b"")
    return (code if isinstance(code, int) else _FAILED), (output if isinstance(output, bytes) else b"")

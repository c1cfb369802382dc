"""`kvedge launcher-freezer`: freezes the guest for a backup, and thaws it, as KubeVirt's `virt-freezer`.

Started by the file `virt-freezer` that the node puts on the container's PATH (`handler/node/launcher_tools.py`). Velero
does it before and after it backs the guest's claims up, as the launcher Pod's annotations say. A guest that does not
run, or has no agent, is left as it is: a backup of it is one of a machine whose power was cut. Imports only what is
built into the interpreter.
"""

from __future__ import annotations

import sys

from kvedge.launcher.grpc_call import OK, UnaryCall
from kvedge.launcher.launcher_call import SERVICE, SOCKET, carry, fields, varint

_USAGE = """\
usage: virt-freezer (--freeze | --unfreeze) --name VMI --namespace NAMESPACE [--unfreezeTimeoutSeconds N]

Freezes the file systems of this launcher Pod's guest by its agent, or thaws them. They thaw by themselves after
N seconds, 300 if not said.
"""
_FAILED = 1
_WRONG_USAGE = 2
# KubeVirt's.
_THAW_SECONDS = 300
_MOST_THAW_SECONDS = 86400
# Windows freezes within a minute; Velero waits as long.
_SECONDS = 60
_ASK_SECONDS = 10
_LONGEST_ANSWER = 1 << 20
# Of DomainStatus.
_STATE, _AGENT_CONNECTED = 3, 7
_RUNNING = 2
_VALUES = ("--name", "--namespace", "--unfreezeTimeoutSeconds")


def main(arguments: list[str], socket: str = SOCKET) -> int:
    """Do it; the exit code."""
    asked = _parse(arguments)
    if asked is None:
        sys.stderr.write(_USAGE)
        return _WRONG_USAGE
    verb, seconds = asked
    try:
        found = _ask("GetDomain", b"", socket, _ASK_SECONDS)
        if found.status == OK:
            domain = dict(fields(found.reply))
            if domain.get(_STATE) != _RUNNING:
                return _say("the guest does not run: there is nothing to freeze or thaw", 0)
            if not domain.get(_AGENT_CONNECTED):
                return _say("the guest has no agent that is connected: it is left as it is", 0)
            message = b"\x08" + varint(seconds) if verb == "Freeze" else b""
            found = _ask(verb, message, socket, _SECONDS)
    except (OSError, ValueError) as error:
        return _say(f"the launcher cannot be asked: {error}", _FAILED)
    return 0 if found.status == OK else _say(found.detail, _FAILED)


def _ask(verb: str, message: bytes, socket: str, seconds: int) -> UnaryCall:
    call = UnaryCall(f"{SERVICE}{verb}", message, seconds, _LONGEST_ANSWER)
    carry(call, socket, seconds + 1)
    return call


def _parse(arguments: list[str]) -> tuple[str, int] | None:
    """The launcher's verb and after how many seconds the guest thaws by itself; None when it makes no sense."""
    verbs = []
    values: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, is_one, value = argument.partition("=")
        if argument in ("--freeze", "--unfreeze"):
            verbs.append(argument)
        elif name in _VALUES:
            values[name] = value if is_one else next(rest, "")
        else:
            return None
    seconds = values.get("--unfreezeTimeoutSeconds", str(_THAW_SECONDS))
    if len(verbs) != 1 or not values.get("--name") or not values.get("--namespace") or not seconds.isdecimal():
        return None
    return verbs[0][2:].capitalize(), min(int(seconds[:9]), _MOST_THAW_SECONDS)


def _say(text: str, code: int) -> int:
    (sys.stderr if code else sys.stdout).write(f"{text}\n")
    return code

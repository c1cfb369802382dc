"""`kvedge launcher-virsh`: a read-only look-alike of libvirt's `virsh`, in the launcher's container.

Started by the file `virsh` that the node puts on the container's PATH (`handler/node/launcher_tools.py`), as in
`kubectl exec POD -c compute -- virsh dumpxml DOMAIN`. libvirt runs within the launcher and has no socket: the launcher
itself is asked. Exit code and streams are virsh's.
"""

from __future__ import annotations

import sys

from kvedge.launcher.launcher_call import SOCKET
from kvedge.launcher.virsh import views
from kvedge.launcher.virsh.description import Description, Unanswered, ask
from kvedge.launcher.virsh.refusals import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_FAILED = 1
# Options of virsh itself, before the verb: those with a value are accepted, as there is one connection anyway.
_GLOBAL_VALUES = frozenset({"-c", "--connect", "-d", "--debug", "-e", "--escape", "-l", "--log"})
_GLOBAL_FLAGS = frozenset({"-r", "--readonly", "-q", "--quiet"})
_LIST_FLAGS = (
    "all inactive persistent transient name uuid id table state-running state-paused state-shutoff state-other"
)
# The flags of each verb that is shown, and after a colon its options with a value; `domain` is in its place or named.
_VERBS: Mapping[str, tuple[str, str]] = {
    "list": (_LIST_FLAGS, ""),
    "dumpxml": ("", "domain"),
    "domstate": ("reason", "domain"),
    "dominfo": ("", "domain"),
    "domid": ("", "domain"),
    "domname": ("", "domain"),
    "domuuid": ("", "domain"),
    "vcpupin": ("live current", "domain vcpu"),
    "vcpuinfo": ("", "domain"),
    "vcpucount": ("maximum active live current config", "domain"),
    "domblklist": ("details", "domain"),
    "domiflist": ("", "domain"),
    "domifaddr": ("full", "domain source"),
    "version": ("", ""),
    "uri": ("", ""),
}
_SHOWN = ", ".join(_VERBS)
_USAGE = f"""\
usage: virsh [-c URI] [-r] [-q] VERB [DOMAIN] [options]

Shows the guest of this launcher Pod, and changes nothing. DOMAIN is NAMESPACE_NAME, the UUID or the id.
Verbs: {_SHOWN}
"""


class _RefusedError(Exception):
    """The arguments ask for what is not done here; the text is for the user."""


def main(arguments: list[str], socket: str = SOCKET) -> int:
    """Answer; the exit code."""
    try:
        sys.stdout.write(_answer(arguments, socket))
        sys.stdout.flush()
    except (_RefusedError, Unanswered) as error:
        sys.stderr.write(f"error: {error}\n")
        return _FAILED
    return 0


def _answer(arguments: list[str], socket: str) -> str:
    rest = list(arguments)
    quiet = _take_global(rest)
    if not rest or rest[0] in ("help", "-h", "--help"):
        return _USAGE
    if rest[0] in ("-v", "--version", "-V"):
        rest[0] = "version"
    verb, *words = rest
    if verb not in _VERBS:
        raise _RefusedError(refusal(verb, _SHOWN))
    options = _parse(verb, words)
    if verb == "uri":
        return "qemu:///embed\n\n"
    domain = ask(socket)
    if verb == "version":
        return views.versions(domain)
    if verb == "list":
        return views.list_domain(domain, options, quiet=quiet)
    wanted = options["domain"]
    if not domain.is_called(wanted):
        there = f"this launcher's guest is {domain.name}" if domain.name else "the guest has not been started yet"
        raise _RefusedError(f"failed to get domain {wanted!r}: {there}")
    return _describe(verb, domain, options, quiet=quiet)


def _describe(verb: str, domain: Description, options: Mapping[str, str], *, quiet: bool) -> str:
    simple = {
        "domid": str(domain.id or "-"),
        "domname": domain.name,
        "domuuid": domain.uuid,
    }
    if verb in simple:
        return f"{simple[verb]}\n\n"
    if verb in _TABLES:
        return _TABLES[verb](domain, options, quiet=quiet)
    return _TEXTS[verb](domain, options)


_TABLES = {
    "vcpupin": views.vcpu_pins,
    "domblklist": views.disks,
    "domiflist": views.interfaces,
    "domifaddr": views.addresses,
}
_TEXTS: Mapping[str, views.View] = {
    "dumpxml": views.document,
    "domstate": views.state,
    "dominfo": views.info,
    "vcpuinfo": views.vcpu_info,
    "vcpucount": views.vcpu_count,
}


def _take_global(rest: list[str]) -> bool:
    """Take virsh's own options off the beginning; whether headings are left out."""
    quiet = False
    while rest:
        name, equals, _ = rest[0].partition("=")
        if rest[0] in _GLOBAL_FLAGS:
            quiet = quiet or rest[0] in ("-q", "--quiet")
            del rest[0]
        elif name in _GLOBAL_VALUES:
            del rest[: 1 if equals else 2]
        else:
            break
    return quiet


def _parse(verb: str, words: list[str]) -> dict[str, str]:
    """The options by their names without dashes; a flag has an empty value.

    Raises:
        _RefusedError: for what this verb does not know here.
    """
    flags, valued = (set(names.split()) for names in _VERBS[verb])
    found: dict[str, str] = {}
    # The options that may stand without their names, in virsh's order.
    places = [name for name in ("domain", "vcpu") if name in valued]
    rest = iter(words)
    for word in rest:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            free = [place for place in places if place not in found]
            if not free:
                raise _RefusedError(_too_many(verb, word))
            found[free[0]] = word
        elif name in flags and not equals:
            found[name] = ""
        elif name in valued:
            found[name] = value if equals else next(rest, "")
        else:
            raise _RefusedError(_explain_unknown(verb, word))
    if "domain" in valued and not found.get("domain"):
        raise _RefusedError(f"{verb} needs a domain: NAMESPACE_NAME, its UUID or its id")
    if found.get("source", "lease") not in ("lease", "agent"):
        raise _RefusedError("--source is lease or agent")
    if not found.get("vcpu", "0").isdecimal():
        raise _RefusedError("--vcpu is a number")
    return found


def _too_many(verb: str, word: str) -> str:
    if verb == "vcpupin":
        return refusal(verb, _SHOWN)
    return f"unexpected data {word!r}"


def _explain_unknown(verb: str, word: str) -> str:
    if verb == "dumpxml" and word == "--security-info":
        return "secrets are never shown; leave --security-info out"
    if verb == "vcpupin" and word.startswith("--cpulist"):
        return refusal(verb, _SHOWN)
    return f"command {verb!r} does not know {word} here; leave it out"

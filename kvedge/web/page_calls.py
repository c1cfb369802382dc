"""What the pages ask for besides the list: one row for each path, with what answers it.

Called by `console_app`, which makes routes of the rows and runs what answers them in threads. A read gets the session
and the names in its path; a write gets the body as well. Raises what the client raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.session import Session
from kvedge.resources.codec import JsonObject
from kvedge.web import new_vm, own_rights, vm_calls, vm_edit, vm_history

Names = Mapping[str, str]
Read = Callable[[Session, Names], JsonObject]
Write = Callable[[Session, Names, JsonObject], JsonObject]

_VM: Final = "/vms/{namespace}/{name}"


def _of_vm(read: Callable[[Session, str, str], JsonObject]) -> Read:
    return lambda session, names: read(session, names["namespace"], names["name"])


def _to_vm(write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda session, names, body: write(session, names["namespace"], names["name"])


def _to_vm_with(key: str, write: Callable[[Session, str, str, str], JsonObject]) -> Write:
    """With one text of the body."""
    return lambda session, names, body: write(session, names["namespace"], names["name"], text_of(body, key))


def _in_namespace_with(key: str, write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda session, names, body: write(session, names["namespace"], text_of(body, key))


READS: Final[Mapping[str, Read]] = {
    _VM: _of_vm(vm_calls.read_vm),
    f"{_VM}/manifest": _of_vm(vm_calls.read_manifest),
    f"{_VM}/edit": _of_vm(vm_edit.read_editable),
    f"{_VM}/snapshots": _of_vm(vm_history.read_snapshots),
    f"{_VM}/migrations": _of_vm(vm_history.read_migrations),
    "/rights/{namespace}": lambda session, names: own_rights.read_rights(session, names["namespace"]),
    "/new/defaults": lambda session, names: {"namespace": session.namespace},
    "/new/choices/{namespace}": lambda session, names: new_vm.read_choices(session, names["namespace"]),
}
WRITES: Final[Mapping[str, Write]] = {
    f"{_VM}/edit/check": _to_vm_with("yaml", vm_edit.check_change),
    f"{_VM}/edit/apply": _to_vm_with("yaml", vm_edit.apply_change),
    f"{_VM}/snapshots/take": _to_vm_with("name", vm_history.take),
    f"{_VM}/snapshots/restore": _to_vm_with("name", vm_history.restore),
    f"{_VM}/snapshots/delete": _to_vm_with("name", vm_history.delete),
    f"{_VM}/migrations/begin": _to_vm(vm_history.migrate),
    f"{_VM}/migrations/cancel": _to_vm(vm_history.cancel_migration),
    "/new/manifest": lambda session, names, body: new_vm.make_manifest(body),
    "/new/check/{namespace}": _in_namespace_with("yaml", new_vm.check_new_vm),
    "/new/create/{namespace}": _in_namespace_with("yaml", new_vm.create_vm),
}


def text_of(body: JsonObject, key: str) -> str:
    """A text of the body.

    Raises:
        FlagError: when it is none.
    """
    value = body.get(key)
    if not isinstance(value, str):
        raise FlagError(key, "must be a text", f"{key}: must be a text")
    return value

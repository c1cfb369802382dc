"""What the pages ask for besides the list: one row for each path, with what answers it.

Called by `console_app`, which makes routes of the rows and runs what answers them in threads. A read gets the user
and the names in its path; a write gets the body as well. Raises what the client raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.session import Session
from kvedge.client.usage.usage_history import read_history
from kvedge.resources.codec import JsonObject, encode
from kvedge.web import cluster_calls, new_vm, own_rights, vm_calls, vm_edit, vm_history
from kvedge.web.web_user import WebUser

Names = Mapping[str, str]
Read = Callable[[WebUser, Names], JsonObject]
Write = Callable[[WebUser, Names, JsonObject], JsonObject]

_VM: Final = "/vms/{namespace}/{name}"


def _of_vm(read: Callable[[Session, str, str], JsonObject]) -> Read:
    return lambda user, names: read(user.session, names["namespace"], names["name"])


def _to_vm(write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda user, names, body: write(user.session, names["namespace"], names["name"])


def _to_vm_with(key: str, write: Callable[[Session, str, str, str], JsonObject]) -> Write:
    """With one text of the body."""
    return lambda user, names, body: write(user.session, names["namespace"], names["name"], text_of(body, key))


def _in_namespace_with(key: str, write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda user, names, body: write(user.session, names["namespace"], text_of(body, key))


def _of_place(read: Callable[[Session, str | None], JsonObject]) -> Read:
    return lambda user, names: read(user.session, user.place)


READS: Final[Mapping[str, Read]] = {
    _VM: _of_vm(vm_calls.read_vm),
    f"{_VM}/manifest": _of_vm(vm_calls.read_manifest),
    f"{_VM}/edit": _of_vm(vm_edit.read_editable),
    f"{_VM}/snapshots": _of_vm(vm_history.read_snapshots),
    f"{_VM}/migrations": _of_vm(vm_history.read_migrations),
    f"{_VM}/use/{{span}}": lambda user, names: encode(
        read_history(user.session, names["namespace"], names["name"], names["span"])
    ),
    f"{_VM}/use": lambda user, names: user.looks.use_of(names["namespace"], names["name"]),
    "/nodes": _of_place(cluster_calls.read_nodes),
    "/volumes": _of_place(cluster_calls.read_volumes),
    "/networks": _of_place(cluster_calls.read_networks),
    "/tasks": _of_place(cluster_calls.read_tasks),
    "/alarms": _of_place(cluster_calls.read_alarms),
    "/rights/{namespace}": lambda user, names: own_rights.read_rights(user.session, names["namespace"]),
    "/new/defaults": lambda user, names: {"namespace": user.session.namespace},
    "/new/choices/{namespace}": lambda user, names: new_vm.read_choices(user.session, names["namespace"]),
}
WRITES: Final[Mapping[str, Write]] = {
    f"{_VM}/edit/check": _to_vm_with("yaml", vm_edit.check_change),
    f"{_VM}/edit/apply": _to_vm_with("yaml", vm_edit.apply_change),
    f"{_VM}/snapshots/take": _to_vm_with("name", vm_history.take),
    f"{_VM}/snapshots/restore": _to_vm_with("name", vm_history.restore),
    f"{_VM}/snapshots/delete": _to_vm_with("name", vm_history.delete),
    f"{_VM}/migrations/begin": _to_vm(vm_history.migrate),
    f"{_VM}/migrations/cancel": _to_vm(vm_history.cancel_migration),
    "/new/manifest": lambda user, names, body: new_vm.make_manifest(body),
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

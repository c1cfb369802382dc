"""What the pages ask for besides the list: one row for each path, with what answers it.

Called by `console_app`, which makes routes of the rows and runs what answers them in threads. A read gets the user
and the names in its path; a write gets the body as well. Raises what the client raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kvedge.client.session import Session
from kvedge.client.usage.usage_history import read_history
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.vm import VirtualMachine
from kvedge.web import cluster_calls, overview, own_rights
from kvedge.web.images import image_calls
from kvedge.web.object_edit import ObjectEdit
from kvedge.web.site import access_calls, settings_calls
from kvedge.web.texts.body_text import text_of
from kvedge.web.vms import new_vm, vm_calls, vm_copies, vm_disks, vm_guest, vm_history
from kvedge.web.web_user import WebUser

Names = Mapping[str, str]
Read = Callable[[WebUser, Names], JsonObject]
Write = Callable[[WebUser, Names, JsonObject], JsonObject]

_VM: Final = "/vms/{namespace}/{name}"
_SETTINGS: Final = "/settings/{namespace}/{name}"
_UPLOAD: Final = "/uploads/{namespace}/{name}"
_vm_edit: Final = ObjectEdit(VirtualMachine.KIND)
_settings_edit: Final = ObjectEdit(KubeVirt.KIND)


def _of_object(read: Callable[[Session, str, str], JsonObject]) -> Read:
    return lambda user, names: read(user.session, names["namespace"], names["name"])


def _to_object(write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda user, names, body: write(user.session, names["namespace"], names["name"])


def _to_object_with(key: str, write: Callable[[Session, str, str, str], JsonObject]) -> Write:
    """With one text of the body."""
    return lambda user, names, body: write(user.session, names["namespace"], names["name"], text_of(body, key))


def _to_object_all(write: Callable[[Session, str, str, JsonObject], JsonObject]) -> Write:
    """With all of the body."""
    return lambda user, names, body: write(user.session, names["namespace"], names["name"], body)


def _in_namespace(write: Callable[[Session, str, JsonObject], JsonObject]) -> Write:
    return lambda user, names, body: write(user.session, names["namespace"], body)


def _in_namespace_with(key: str, write: Callable[[Session, str, str], JsonObject]) -> Write:
    return lambda user, names, body: write(user.session, names["namespace"], text_of(body, key))


def _of_place(read: Callable[[Session, str | None], JsonObject]) -> Read:
    return lambda user, names: read(user.session, user.place)


READS: Final[Mapping[str, Read]] = {
    _VM: _of_object(vm_calls.read_vm),
    f"{_VM}/manifest": _of_object(vm_calls.read_manifest),
    f"{_VM}/edit": _of_object(_vm_edit.read_editable),
    f"{_VM}/snapshots": _of_object(vm_history.read_snapshots),
    f"{_VM}/migrations": _of_object(vm_history.read_migrations),
    f"{_VM}/backups": _of_object(vm_copies.read_backups),
    f"{_VM}/agent": _of_object(vm_guest.read_agent),
    f"{_VM}/log": _of_object(vm_guest.read_log),
    f"{_VM}/use/{{span}}": lambda user, names: encode(
        read_history(user.session, names["namespace"], names["name"], names["span"])
    ),
    f"{_VM}/use": lambda user, names: user.looks.use_of(names["namespace"], names["name"]),
    "/overview": _of_place(overview.read_overview),
    "/nodes": _of_place(cluster_calls.read_nodes),
    "/volumes": _of_place(cluster_calls.read_volumes),
    "/networks": _of_place(cluster_calls.read_networks),
    "/tasks": _of_place(cluster_calls.read_tasks),
    "/alarms": _of_place(cluster_calls.read_alarms),
    "/images": _of_place(image_calls.read_images),
    "/images/{namespace}/right": lambda user, names: image_calls.read_upload_right(user.session, names["namespace"]),
    f"{_UPLOAD}/ready": _of_object(image_calls.read_ready),
    f"{_UPLOAD}/done": _of_object(image_calls.read_done),
    "/settings": lambda user, names: settings_calls.read_settings(user.session),
    f"{_SETTINGS}/manifest": _of_object(_settings_edit.read_editable),
    f"{_SETTINGS}/edit": _of_object(_settings_edit.read_editable),
    "/access/{namespace}": lambda user, names: access_calls.read_access(user.session, names["namespace"]),
    "/rights/{namespace}": lambda user, names: own_rights.read_rights(user.session, names["namespace"]),
    "/new/defaults": lambda user, names: {"namespace": user.session.namespace},
    "/new/choices/{namespace}": lambda user, names: new_vm.read_choices(user.session, names["namespace"]),
}
WRITES: Final[Mapping[str, Write]] = {
    f"{_VM}/edit/check": _to_object_with("yaml", _vm_edit.check_change),
    f"{_VM}/edit/apply": _to_object_with("yaml", _vm_edit.apply_change),
    f"{_VM}/snapshots/take": _to_object_all(vm_history.take),
    f"{_VM}/snapshots/restore": _to_object_with("name", vm_history.restore),
    f"{_VM}/snapshots/delete": _to_object_with("name", vm_history.delete),
    f"{_VM}/migrations/begin": _to_object(vm_history.migrate),
    f"{_VM}/migrations/cancel": _to_object(vm_history.cancel_migration),
    f"{_VM}/backups/take": _to_object_with("name", vm_copies.ask_backup),
    f"{_VM}/backups/return": _to_object_all(vm_copies.ask_return),
    f"{_VM}/disks/attach": _to_object_all(vm_disks.attach),
    f"{_VM}/disks/detach": _to_object_with("name", vm_disks.detach),
    f"{_VM}/clone": _to_object_all(vm_copies.clone),
    f"{_VM}/delete": _to_object_with("uid", vm_copies.delete),
    f"{_UPLOAD}/begin": _to_object_all(image_calls.begin_upload),
    f"{_UPLOAD}/offset": _to_object_with("identity", image_calls.read_offset),
    f"{_UPLOAD}/offer": _to_object(image_calls.offer_image),
    f"{_UPLOAD}/cancel": _to_object(image_calls.cancel_upload),
    f"{_SETTINGS}/edit/check": _to_object_with("yaml", _settings_edit.check_change),
    f"{_SETTINGS}/edit/apply": _to_object_with("yaml", _settings_edit.apply_change),
    "/access/{namespace}/give": _in_namespace(access_calls.give_role),
    "/access/{namespace}/take": _in_namespace(access_calls.take_role),
    "/new/manifest": lambda user, names, body: new_vm.make_manifest(body),
    "/new/check/{namespace}": _in_namespace_with("yaml", new_vm.check_new_vm),
    "/new/create/{namespace}": _in_namespace_with("yaml", new_vm.create_vm),
}

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
from kvedge.web import new_vm, vm_calls

Names = Mapping[str, str]
Read = Callable[[Session, Names], JsonObject]
Write = Callable[[Session, Names, JsonObject], JsonObject]

_VM: Final = "/vms/{namespace}/{name}"

READS: Final[Mapping[str, Read]] = {
    _VM: lambda session, names: vm_calls.read_vm(session, names["namespace"], names["name"]),
    f"{_VM}/manifest": lambda session, names: {
        "yaml": vm_calls.read_manifest(session, names["namespace"], names["name"])
    },
    "/new/defaults": lambda session, names: {"namespace": session.namespace},
    "/new/choices/{namespace}": lambda session, names: new_vm.read_choices(session, names["namespace"]),
}
WRITES: Final[Mapping[str, Write]] = {
    "/new/manifest": lambda session, names, body: new_vm.make_manifest(body),
    "/new/check/{namespace}": lambda session, names, body: new_vm.check_new_vm(
        session, names["namespace"], text_of(body, "yaml")
    ),
    "/new/create/{namespace}": lambda session, names, body: new_vm.create_vm(
        session, names["namespace"], text_of(body, "yaml")
    ),
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

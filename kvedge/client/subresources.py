"""Calls of `subresources.kubevirt.io/v1`: the same that virtctl makes.

Called by the verbs for VMs and guests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from kvedge.client.errors import NotFoundError, RefusedError, UsageError
from kvedge.client.nearest_vm import add_nearest_hint
from kvedge.client.session import Session, check_name
from kvedge.kube.errors import NotFound, Unavailable
from kvedge.resources.codec import JsonObject

T = TypeVar("T")

VM: Final = "virtualmachines"
VMI: Final = "virtualmachineinstances"
# KubeVirt's answers when the guest cannot do it.
_GUEST_CANNOT: Final = 500
_NO_AGENT: Final = "does not have guest agent connected"
_AGENT_HINT: Final = ": install and start qemu-guest-agent in the guest"
# A freeze or a screenshot may take a guest a while.
_SECONDS: Final = 60.0
_BASE: Final = "/apis/subresources.kubevirt.io/v1/namespaces"
_KINDS: Final = {
    **dict.fromkeys(("vm", "vms", "virtualmachine", "virtualmachines"), VM),
    **dict.fromkeys(("vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"), VMI),
}


def resource_of(kind: str) -> str:
    """The plural that a user means by `vm`, `VMIs`, `virtualmachine` and the like.

    Raises:
        UsageError: for another kind.
    """
    found = _KINDS.get(kind.lower())
    if found is None:
        raise UsageError(f"unsupported resource type '{kind}': use vm or vmi")
    return found


def subresource_path(namespace: str, resource: str, name: str, call: str) -> str:
    """Where a subresource is.

    Raises:
        UsageError: for a name that no object can have.
    """
    return f"{_BASE}/{check_name(namespace, 'namespace')}/{resource}/{check_name(name)}/{call}"


def put(session: Session, resource: str, name: str, call: str, body: JsonObject | None = None) -> None:
    """Ask for something; None in the body's values leaves them out.

    Raises:
        NotFoundError: with names that are alike.
        RefusedError: when the guest cannot.
        KubeError: with the server's words.
    """
    _call_guest(session, "PUT", resource, name, call, _present(body))


def get_object(session: Session, resource: str, name: str) -> Any:
    """A VM or VMI itself, as a document; errors as :func:`put`."""
    path = f"/apis/kubevirt.io/v1/namespaces/{session.namespace}/{resource}/{check_name(name)}"
    return _ask(session, resource, name, lambda: session.client.request("GET", path))


def get(session: Session, resource: str, name: str, call: str, body: JsonObject | None = None) -> Any:
    """Ask for a document; as :func:`put`."""
    return _call_guest(session, "GET", resource, name, call, _present(body))


def get_content(
    session: Session,
    resource: str,
    name: str,
    call: str,
    query: dict[str, str] | None = None,
    seconds: float = _SECONDS,
) -> bytes:
    """Ask for something that is no document; as :func:`put`."""
    path = subresource_path(session.namespace, resource, name, call)
    client = session.client.hurry(seconds)
    return _ask(session, resource, name, lambda: client.content(path, query))


def _present(body: JsonObject | None) -> JsonObject | None:
    return None if body is None else {key: value for key, value in body.items() if value is not None}


def _words(error: Unavailable) -> str:
    """The server's words alone, without the call that ended so."""
    return error.message.rpartition(f": HTTP {error.status} ")[2].strip() or error.message


def _call_guest(session: Session, method: str, resource: str, name: str, call: str, body: JsonObject | None) -> Any:
    path = subresource_path(session.namespace, resource, name, call)
    # Calls of a guest are made once: a second start is another one.
    client = session.client.hurry(_SECONDS)
    return _ask(session, resource, name, lambda: client.request(method, path, body))


def _ask(session: Session, resource: str, name: str, ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Unavailable as error:
        if error.status != _GUEST_CANNOT:
            raise
        words = _words(error)
        raise RefusedError(f"{words}{_AGENT_HINT if _NO_AGENT in words else ''}") from error
    except NotFound as error:
        raise NotFoundError(add_nearest_hint(session, error.message, resource, name)) from error

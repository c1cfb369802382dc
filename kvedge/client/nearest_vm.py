"""What a user may have meant when there is no VM of a name: another name, another namespace, or a VM that is stopped.

Called when a call for a VM or VMI ended with 404. Asks the server once or twice more, and says nothing when that fails.
"""

from __future__ import annotations

from typing import Final

from kvedge.client.session import Session
from kvedge.kube.errors import KubeError
from kvedge.runtime.nearest_names import or_nearest

_KUBEVIRT: Final = "/apis/kubevirt.io/v1"
_VM: Final = "virtualmachines"
_SECONDS: Final = 5.0
_MOST: Final = "500"


def add_nearest_hint(session: Session, message: str, resource: str, name: str) -> str:
    """The server's words, with what helps."""
    try:
        return f"{message}.{_hint(session, resource, name)}"
    except (KubeError, KeyError, TypeError, AttributeError):
        # The first answer is what counts; a second one that is odd adds nothing.
        return message


def _hint(session: Session, resource: str, name: str) -> str:
    names = _names(session, f"/namespaces/{session.namespace}/{_VM}").get(session.namespace, [])
    if resource != _VM:
        running = _names(session, f"/namespaces/{session.namespace}/{resource}").get(session.namespace, [])
        if name in running:
            # Something of it is missing, not the guest.
            return ""
        if name in names:
            return f" The VM {name} does not run: start it with `kvedge start {name}`."
        names += running
    if found := or_nearest(name, sorted(set(names))):
        return found
    elsewhere = [place for place, found in _names(session, f"/{resource}").items() if name in found]
    if elsewhere:
        return f" There is one of that name in namespace {elsewhere[0]}: add -n {elsewhere[0]}."
    return "" if names else f" There are none in namespace {session.namespace}."


def _names(session: Session, path: str) -> dict[str, list[str]]:
    """Namespace → names."""
    answer = session.client.hurry(_SECONDS).request("GET", _KUBEVIRT + path, query={"limit": _MOST})
    found: dict[str, list[str]] = {}
    for item in answer["items"]:
        found.setdefault(item["metadata"]["namespace"], []).append(item["metadata"]["name"])
    return found

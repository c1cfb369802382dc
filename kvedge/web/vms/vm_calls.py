"""What the pages ask of the API server about one VM, with the user's own rights: to read it, and to change its power.

Called by `console_app` in threads of their own. Raises what the client raises.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any, Final

from kvedge.client.session import Session, check_name
from kvedge.client.subresources import VM, VMI, get_object, put
from kvedge.kube.errors import KubeError, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.core import Event
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.web.texts.yaml_text import LONGEST, write_yaml
from kvedge.web.vms.namespace_session import enter_namespace
from kvedge.web.vms.vm_view import view_of

# What a page may ask for, and of which object.
ACTIONS: Final = {"start": VM, "stop": VM, "restart": VM, "pause": VMI, "unpause": VMI}
# One answer that takes longer is a server that hangs.
_SECONDS: Final = 20.0


def read_vm(session: Session, namespace: str, name: str) -> JsonObject:
    """The document of a VM's page; a VMI of no VM has one as well.

    Raises:
        NotFound: when there is neither.
        KubeError: with the server's words.
    """
    check_name(namespace, "namespace")
    check_name(name)
    client = session.client.hurry(_SECONDS)
    vmi: VirtualMachineInstance | None = None
    vm: VirtualMachine | None = None
    with contextlib.suppress(NotFound):
        vmi = client.get(VirtualMachineInstance, namespace, name)
    try:
        vm = client.get(VirtualMachine, namespace, name)
    except NotFound:
        if vmi is None:
            raise
    events: list[Event] = []
    # The rest of the page is worth showing without the right to read events.
    with contextlib.suppress(KubeError):
        events = client.list(Event, namespace, field_selector=f"involvedObject.name={name}")
    return view_of(vm, vmi, events, datetime.now(UTC))


def read_manifest(session: Session, namespace: str, name: str) -> JsonObject:
    """A VM as YAML, or its VMI when it has no VM; what servers note about fields is left out."""
    here = enter_namespace(session, namespace)
    path = f"/apis/kubevirt.io/v1/namespaces/{here.namespace}"
    try:
        document: Any = here.client.request("GET", f"{path}/{VM}/{check_name(name)}")
    except NotFound:
        document = get_object(here, VMI, name)
    text = write_yaml(document)
    return {"yaml": text if len(text) <= LONGEST else text[:LONGEST] + "\n# cut: it is too long for a page\n"}


def act(session: Session, namespace: str, name: str, action: str) -> None:
    """Start, stop, restart, pause or unpause.

    Raises:
        NotFoundError: when it is not there.
        RefusedError: when the guest cannot.
        KubeError: with the server's words.
    """
    put(enter_namespace(session, namespace), ACTIONS[action], name, action, {})


def find_run(session: Session, namespace: str, name: str) -> str:
    """The UID of the VMI that runs under this name.

    Raises:
        NotFound: when none does.
    """
    check_name(namespace, "namespace")
    check_name(name)
    return session.client.hurry(_SECONDS).get(VirtualMachineInstance, namespace, name).metadata.uid

"""The calls that expand a VM: one that is stored, and one that somebody sends.

Called by subresource_server.py in a worker thread. Asks the API server for what the VM names.
"""

from __future__ import annotations

from collections.abc import Callable

from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.subresources.expand_rules import check_expandable, expand
from kvedge.api.subresources.status_message import VM, bad_request, internal, not_found_refusal
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.type_finder import TypeFinder, TypeMissing
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.values.quantities import QuantityError


class ExpandCalls:
    """Questions to one API server; they may be asked in any thread."""

    def __init__(self, client: KubeClient, cluster: Callable[[], Cluster]) -> None:
        """`cluster` says what holds when a VM is expanded."""
        self._client = client
        self._finder = TypeFinder(client)
        self._cluster = cluster

    def expand_stored(self, namespace: str, name: str) -> JsonObject:
        """The VM of this name. Raises Refusal."""
        try:
            found: JsonObject = self._client.request("GET", VirtualMachine.KIND.path(namespace, name))
        except NotFound as error:
            raise not_found_refusal(VM, name) from error
        except KubeError as error:
            raise internal(str(error)) from error
        return self._expand(found, namespace)

    def expand_sent(self, document: JsonObject, namespace: str) -> JsonObject:
        """A VM that a user sends: its status is not believed. Raises Refusal."""
        check_expandable(document, namespace)
        if decode(VirtualMachine, document).spec.template is None:
            raise bad_request("Object is not a valid VirtualMachine")
        without = {name: value for name, value in document.items() if name != "status"}
        expanded = self._expand(without, namespace)
        return document if expanded is without else expanded

    def _expand(self, document: JsonObject, namespace: str) -> JsonObject:
        vm = decode(VirtualMachine, document)
        vm.metadata.namespace = namespace
        try:
            return expand(document, self._finder.find_types(vm), self._cluster())
        except (TypeMissing, QuantityError, KubeError) as error:
            raise internal(str(error)) from error

"""addvolume and removevolume of VMs and VMIs: reads the object, asks the rules, writes both lists.

Called by the subresource server in a worker thread, as the API client blocks. 202 means that it is written down: the
VM's controller carries the volumes of the VM to its run, and a client that waits looks at `status.volumeStatus`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from kvedge.api.subresources.call_options import AddVolumeOptions, CallOptions, RemoveVolumeOptions, parse_options
from kvedge.api.subresources.status_message import (
    VM,
    VMI,
    Refusal,
    bad_request,
    conflict,
    internal,
    not_found_refusal,
    unprocessable,
)
from kvedge.api.subresources.volume_rules import (
    NO_BODY,
    NO_GATE,
    Lists,
    add_volume,
    check_add,
    check_remove,
    check_result,
    lists_of,
    operations,
    remove_volume,
)
from kvedge.kube.errors import Invalid, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.feature_gates import DECLARATIVE_HOTPLUG, HOTPLUG_VOLUMES, FeatureGates
from kvedge.resources.guest_verbs import VM_PLURAL, GuestVerb
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_TRIES: Final = 5
# An API server says this of a failed test in a patch, and virtctl takes it as "try again".
_OVERTAKEN: Final = "the server rejected our request due to an error in our request"
_JSON_PATCH: Final = "application/json-patch+json"
_TEMPLATE: Final = "/spec/template/spec"
_SPEC: Final = "/spec"

Change = Callable[[Lists, str, str], Lists]


class VolumeCalls:
    """The two calls for the VMs and VMIs of one API server."""

    def __init__(self, client: KubeClient, gates: Callable[[], FeatureGates]) -> None:
        self._client = client
        self._gates = gates

    def call(self, verb: GuestVerb, namespace: str, name: str, body: bytes) -> None:
        """What a verb of the table asks, with its options in the body. Raises Refusal."""
        if not self._is_possible:
            raise bad_request(NO_GATE)
        if not body.strip():
            raise bad_request(NO_BODY)
        options, change = VOLUME[verb.name](body)
        if verb.resource == VM_PLURAL:
            self._change_vm(namespace, name, options, change)
        else:
            self._change_vmi(namespace, name, options, change)

    @property
    def _is_possible(self) -> bool:
        gates = self._gates()
        return gates.is_on(DECLARATIVE_HOTPLUG) or gates.is_on(HOTPLUG_VOLUMES)

    def _change_vm(self, namespace: str, name: str, options: CallOptions, change: Change) -> None:
        path = VirtualMachine.KIND.path(namespace, name)
        self._write(path, VM, name, _TEMPLATE, options, change, lambda document: None)
        if not self._gates().is_on(HOTPLUG_VOLUMES):
            return
        # The deprecated gate leaves a run's volumes to these calls alone: the VM's own run is changed as well.
        run = VirtualMachineInstance.KIND.path(namespace, name)
        try:
            self._write(run, VMI, name, _SPEC, options, change, lambda document: _is_run_of(document, name))
        except Refusal as error:
            # It does not run, or its run has it already, or no longer.
            if error.code not in (404, 409):
                raise

    def _change_vmi(self, namespace: str, name: str, options: CallOptions, change: Change) -> None:
        is_ephemeral = self._gates().is_on(HOTPLUG_VOLUMES)

        def check(document: JsonObject) -> None:
            owner = _owner(document)
            if owner is not None and not is_ephemeral:
                raise bad_request(f"VMI {namespace}/{name} is owned by a VM")
            _is_running(document, name)

        path = VirtualMachineInstance.KIND.path(namespace, name)
        self._write(path, VMI, name, _SPEC, options, change, check)

    def _write(
        self,
        path: str,
        resource: str,
        name: str,
        at: str,
        options: CallOptions,
        change: Change,
        check: Callable[[JsonObject], None],
    ) -> None:
        """Read, decide, write; decided again when somebody else has changed the object meanwhile. Raises Refusal."""
        for _ in range(_TRIES):
            document = self._read(path, resource, name)
            check(document)
            before = lists_of(document, at)
            after = change(before, resource, name)
            if isinstance(options, AddVolumeOptions):
                check_result(document, at, after)
            version = _version(document)
            query = {"dryRun": "All"} if options.is_dry_run else {}
            try:
                self._client.request("PATCH", path, operations(before, after, version), query, _JSON_PATCH)
            except Invalid as error:
                if error.causes or _version(self._read(path, resource, name)) == version:
                    # No other write came first: admission says this.
                    raise unprocessable(error.message) from error
                continue
            except KubeError as error:
                _raise_failure(error, resource, name)
            return
        raise unprocessable(_OVERTAKEN)

    def _read(self, path: str, resource: str, name: str) -> JsonObject:
        try:
            found: JsonObject = self._client.request("GET", path)
        except NotFound as error:
            raise not_found_refusal(resource, name) from error
        return found


def _raise_failure(error: KubeError, resource: str, name: str) -> NoReturn:
    if isinstance(error, NotFound):
        raise not_found_refusal(resource, name) from error
    what = "vm" if resource == VM else "vmi"
    raise internal(f"unable to patch {what}: {error.message}") from error


def _is_run_of(document: JsonObject, name: str) -> None:
    owner = _owner(document)
    if owner is None or owner.get("name") != name:
        raise conflict(VMI, name, "it is no run of the VM")
    _is_running(document, name)


def _is_running(document: JsonObject, name: str) -> None:
    if (document.get("status") or {}).get("phase") != "Running":
        raise conflict(VMI, name, "VMI is not running")


def _version(document: JsonObject) -> str:
    return str(document["metadata"].get("resourceVersion", ""))


def _owner(document: JsonObject) -> JsonObject | None:
    """The VM that the VMI is a run of."""
    references = document["metadata"].get("ownerReferences") or []
    return next((each for each in references if each.get("controller") and each.get("kind") == "VirtualMachine"), None)


def _read_addition(body: bytes) -> tuple[CallOptions, Change]:
    options = parse_options(AddVolumeOptions, body)
    check_add(options)
    return options, lambda lists, resource, name: add_volume(lists, options, resource, name)


def _read_removal(body: bytes) -> tuple[CallOptions, Change]:
    options = parse_options(RemoveVolumeOptions, body)
    check_remove(options)
    return options, lambda lists, resource, name: remove_volume(lists, options, resource, name)


# The implementation of each verb of the way `volume`.
VOLUME: Final[Mapping[str, Callable[[bytes], tuple[CallOptions, Change]]]] = {
    "addvolume": _read_addition,
    "removevolume": _read_removal,
}

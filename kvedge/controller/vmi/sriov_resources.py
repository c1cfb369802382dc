"""What a launcher's Pod asks of SR-IOV device plugins: one virtual function for each interface with `sriov: {}`.

Called when a launcher's Pod is made; reads the NetworkAttachmentDefinitions that name the plugins' resources, one by
one. KubeVirt leaves this to another webhook while its gate ExternalNetResourceInjection is on, which is its default;
here that gate has to be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.core import Container, EnvVar, Pod
from kvedge.resources.types.pod_networks import attachment_of, sriov_interfaces
from kvedge.resources.types.sriov_networks import RESOURCE_NAME, is_resource, resource_variable
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity

_LONGEST_SHOWN: Final = 80


class FunctionsUnknown(Exception):
    """No object names the device plugin with the functions of a VMI's network. The text has field and remedy."""


def with_functions(pod: Pod, vmi: VirtualMachineInstance, client: KubeClient, *, by_others: bool) -> Pod:
    """The Pod, which asks for its guest's functions, and tells its launcher which resource each interface's is of.

    `by_others`: a webhook of somebody else's adds the requests.

    Raises:
        FunctionsUnknown: when a network is not there, or does not name a resource.
        KubeError: when a network cannot be read now.
    """
    resources = dict(_resources(vmi, client))
    if not resources:
        return pod
    compute, *others = pod.spec.containers
    told = [EnvVar(name=resource_variable(interface), value=name) for interface, name in resources.items()]
    made = msgspec.structs.replace(compute, env=[*compute.env, *told])
    if not by_others:
        made = _with_requests(made, resources)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=[made, *others]))


def _with_requests(compute: Container, resources: Mapping[str, str]) -> Container:
    wanted = list(resources.values())
    counts: dict[str, Quantity] = {name: str(wanted.count(name)) for name in wanted}
    asked = compute.resources
    # An extended resource is asked for and limited by one number.
    more = msgspec.structs.replace(asked, requests={**asked.requests, **counts}, limits={**asked.limits, **counts})
    return msgspec.structs.replace(compute, resources=more)


def _resources(vmi: VirtualMachineInstance, client: KubeClient) -> Iterator[tuple[str, str]]:
    """Interface and resource."""
    for index, interface, network_name in sriov_interfaces(vmi):
        namespace, name = attachment_of(network_name, vmi.metadata.namespace)
        field = f"spec.domain.devices.interfaces[{index}].sriov"
        try:
            found = client.get(NetworkAttachmentDefinition, namespace, name)
        except NotFound as error:
            raise FunctionsUnknown(
                f"{field}: there is no NetworkAttachmentDefinition {namespace}/{name}; the VM starts once it is there"
            ) from error
        except Forbidden as error:
            raise FunctionsUnknown(
                f"{field}: the controller may not read NetworkAttachmentDefinition {namespace}/{name}: {error};"
                " apply k3s/rbac again"
            ) from error
        resource = found.metadata.annotations.get(RESOURCE_NAME, "")
        if not is_resource(resource):
            said = f"names {resource[:_LONGEST_SHOWN]!r} in" if resource else "has no"
            raise FunctionsUnknown(
                f"{field}: NetworkAttachmentDefinition {namespace}/{name} {said} annotation {RESOURCE_NAME};"
                " name the resource of the SR-IOV device plugin there, such as vendor.com/resource"
            )
        yield interface.name, resource

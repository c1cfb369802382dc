"""Limits of launcher Pods in namespaces whose ResourceQuota wants some said, where the VM itself says none.

Used by the loops that create launcher Pods. As with KubeVirt, the CPU limit is the guest's vCPUs, and the memory limit
what the Pod asks for times two, or times what the namespace's label says, of what the guest has now: limits grow with
it (`resizing`). A quota is not looked up: the server's
refusal names what is wanted, so that nothing is watched for the few namespaces that have one. Asks the API server for
the namespace then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from fractions import Fraction
from typing import Final

import msgspec

from kvedge.controller.vmi.launcher_pod.share_container_manifest import SHARE_LIMITS
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.types.core import Container, Namespace, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity, parse_bytes, parse_quantity
from kvedge.resources.vmi_facts import vcpu_count

RATIO_LABEL: Final = "alpha.kubevirt.io/auto-memory-limits-ratio"
_RATIO: Final = Fraction(2)
_LONGEST_RATIO: Final = 16
# Kubernetes' admission has these words alone to tell which amounts a quota wants said.
_WANTED: Final = re.compile(r"failed quota: \S+ must specify (.*)")
_NAMES: Final = ("cpu", "memory")
_COMPUTE: Final = "compute"


def create_launcher(client: KubeClient, pod: Pod, vmi: VirtualMachineInstance) -> Pod:
    """The created Pod, with limits where a quota wants them.

    Raises:
        KubeError: when the server refuses it, also with limits.
    """
    try:
        return client.create(pod)
    except KubeError as error:
        wanted = find_wanted(error)
        if not wanted:
            raise
    labels = client.get(Namespace, "", vmi.metadata.namespace).metadata.labels
    return client.create(with_limits(pod, vmi, wanted, read_ratio(labels.get(RATIO_LABEL, ""))))


def find_wanted(error: KubeError) -> frozenset[str]:
    """Which of CPU and memory a quota wants limits of; nothing for any other refusal."""
    found = _WANTED.search(str(error))
    return frozenset(name for name in _NAMES if found is not None and f"limits.{name}" in found[1])


def read_ratio(text: str) -> Fraction:
    """How many times what it asks for a Pod's memory may be; two where the label says nothing that can be.

    >>> read_ratio("1.5"), read_ratio("0.5"), read_ratio("much")
    (Fraction(3, 2), Fraction(2, 1), Fraction(2, 1))
    """
    if len(text) > _LONGEST_RATIO or not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text, re.ASCII):
        return _RATIO
    ratio = Fraction(text)
    return ratio if ratio >= 1 else _RATIO


def with_limits(pod: Pod, vmi: VirtualMachineInstance, wanted: Collection[str], ratio: Fraction) -> Pod:
    """The Pod, each container of which has the wanted limits; those that it has stay."""
    vcpus = vcpu_count(vmi.spec.domain)

    def limit(container: Container) -> Container:
        asked = container.resources
        if container.name == _COMPUTE:
            memory = parse_bytes(asked.requests.get("memory", 0))
            cpus = max(vcpus, math.ceil(parse_quantity(asked.requests.get("cpu", 0))))
            made: dict[str, Quantity] = {"cpu": str(cpus), "memory": str(int(memory * ratio))}
        else:
            made = {name: _larger(asked.requests.get(name), amount) for name, amount in SHARE_LIMITS.items()}
        limits = {name: amount for name, amount in made.items() if name in wanted} | asked.limits
        return msgspec.structs.replace(container, resources=msgspec.structs.replace(asked, limits=limits))

    spec = msgspec.structs.replace(
        pod.spec,
        containers=[limit(each) for each in pod.spec.containers],
        init_containers=[limit(each) for each in pod.spec.init_containers],
    )
    return msgspec.structs.replace(pod, spec=spec)


def _larger(asked: Quantity | None, amount: Quantity) -> Quantity:
    return asked if asked is not None and parse_quantity(asked) > parse_quantity(amount) else amount

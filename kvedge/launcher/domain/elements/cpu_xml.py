"""`<cpu>`: what kind of processor the guest sees.

With emulation there is no host CPU to pass through: libvirt refuses `host-passthrough` there, and its `host-model` is
a list of what QEMU emulates under a vendor's name. Both become `maximum`, which is all that QEMU can emulate; on arm64
a Neoverse N1, as `maximum` has pointer authentication there, and emulating its cipher doubles the time that everything
takes. A named model stays what it is; features of it that QEMU cannot emulate are left out by QEMU with a warning
(`check='none'`), where with KVM their absence is an error. Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.elements.memory_xml import add_memory_cell
from kvedge.launcher.domain.elements.vcpu_xml import largest_topology
from kvedge.launcher.domain.platform import Platform
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.domain import Cpu, CpuFeature, DomainSpec

_HOST_MODELS: Final = frozenset({"host-model", "host-passthrough"})
_EMULATED_ARM: Final = "neoverse-n1"
_POLICIES: Final = frozenset({"force", "require", "optional", "disable", "forbid"})


def add_cpu(domain: Element, spec: DomainSpec, platform: Platform, context: DomainContext) -> Element:
    """Model, topology and features; the element, to which its NUMA cells may be added.

    Raises:
        ConversionError: for a feature policy that does not exist, and for threads on arm64.
    """
    cpu = spec.cpu or Cpu()
    element = _add_model(domain, cpu.model or _default_model(platform), platform, emulation=context.emulation)
    topology = largest_topology(spec, platform.architecture)
    if topology.threads > 1 and platform.architecture == "aarch64":
        raise ConversionError("spec.domain.cpu.threads", "arm64 has one thread per core", "use cores instead")
    add(element, "topology", sockets=topology.sockets, dies=1, cores=topology.cores, threads=topology.threads)
    for index, feature in enumerate(cpu.features):
        add(element, "feature", policy=_policy(index, feature), name=feature.name)
    add_memory_cell(element, spec, platform.architecture, topology.vcpus)
    return element


def _default_model(platform: Platform) -> str:
    return "host-model" if platform.architecture == "x86_64" else "host-passthrough"


def _add_model(domain: Element, model: str, platform: Platform, *, emulation: bool) -> Element:
    if model in _HOST_MODELS and emulation:
        if platform.architecture == "x86_64":
            return add(domain, "cpu", mode="maximum", check="none")
        model = _EMULATED_ARM
    # libvirt cannot describe an arm64 host as a model, so there only the host's own CPU is left.
    if model == "host-passthrough" or (model == "host-model" and platform.architecture == "aarch64"):
        return add(domain, "cpu", mode="host-passthrough", check="none")
    if model == "host-model":
        return add(domain, "cpu", mode="host-model", check="partial")
    element = add(domain, "cpu", mode="custom", match="exact", check="none" if emulation else "partial")
    add(element, "model", model, fallback="allow" if emulation else "forbid")
    return element


def _policy(index: int, feature: CpuFeature) -> str:
    policy = feature.policy or "require"
    if policy not in _POLICIES:
        raise ConversionError(
            f"spec.domain.cpu.features[{index}].policy", f"{policy} is no policy", f"use one of {sorted(_POLICIES)}"
        )
    return policy

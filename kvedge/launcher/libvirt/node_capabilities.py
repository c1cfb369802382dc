"""What this node's libvirt and QEMU can do, in the words that become the node's labels.

Made by `capability_probe` of libvirt's documents, written to `capabilities.json`, which the handler reads. Pure.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, dataclass  # noqa: TID251 - of dataclasses: launchers do without msgspec
from typing import Any

# Of a frequency in Hz that fits into 64 bits.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDocuments:
    """libvirt's own documents: domain capabilities of the accelerator in use, capabilities of the host, and the host
    model's CPU with all its features written out (empty when libvirt cannot tell). Versions as libvirt writes them:
    major * 1,000,000 + minor * 1,000 + release.
    """

    domain_capabilities: str
    capabilities: str
    host_model: str
    libvirt: int
    qemu: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapabilities:
    """Names as QEMU and libvirt have them; versions as `9.0.0`."""

    emulator: str
    host_cpu_model: str
    # What the host model requires beyond the model that it is named by.
    host_model_features: tuple[str, ...]
    cpu_vendor: str
    # Those that this CPU has all of, and all that libvirt knows.
    cpu_models: tuple[str, ...]
    known_models: tuple[str, ...]
    cpu_features: tuple[str, ...]
    machine_types: tuple[str, ...]
    # Those of them that QEMU means to give up.
    deprecated_machines: tuple[str, ...]
    hyperv_features: tuple[str, ...]
    # The ways to encrypt a guest's memory: sev, sev-es, sev-snp, tdx.
    launch_security: tuple[str, ...]
    # In Hz, with KVM alone; 0 where it is not steady. Whether guests may have another one.
    tsc_frequency: int
    tsc_scalable: bool
    libvirt_version: str
    qemu_version: str

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def read_capabilities(documents: HostDocuments) -> NodeCapabilities:
    """The facts in libvirt's documents."""
    domain = ElementTree.fromstring(documents.domain_capabilities)
    host_model = domain.find("cpu/mode[@name='host-model'][@supported='yes']")
    models = [model for model in domain.iterfind("cpu/mode[@name='custom']/model") if model.get("usable")]
    required = _list_required(host_model)
    frequency, scales = _counter(documents.capabilities) if domain.findtext("domain") == "kvm" else (0, False)
    hyperv = domain.iterfind("features/hyperv[@supported='yes']/enum[@name='features']/value")
    machines = _machines(documents.capabilities, domain.findtext("arch") or "")
    return NodeCapabilities(
        emulator=domain.findtext("path") or "",
        host_cpu_model="" if host_model is None else (host_model.findtext("model") or ""),
        host_model_features=_names(required),
        cpu_vendor="" if host_model is None else (host_model.findtext("vendor") or ""),
        cpu_models=_names(model.text for model in models if model.get("usable") == "yes"),
        known_models=_names(model.text for model in models),
        # A node is fit for guests of its own model.
        cpu_features=_names([*_features(documents, host_model), *required]),
        machine_types=_names(machine.text for machine in machines),
        deprecated_machines=_names(machine.text for machine in machines if machine.get("deprecated") == "yes"),
        hyperv_features=_names(value.text for value in hyperv),
        launch_security=_launch_security(domain),
        tsc_frequency=frequency,
        tsc_scalable=scales,
        libvirt_version=_version(documents.libvirt),
        qemu_version=_version(documents.qemu),
    )


def _launch_security(domain: ElementTree.Element) -> tuple[str, ...]:
    """SEV-ES has keys of its own; libvirt counts it to SEV. SEV-SNP and TDX are told since libvirt 10.5."""
    found = {value.text for value in domain.iterfind("features/launchSecurity[@supported='yes']/enum/value")}
    known = found & {"sev-snp", "tdx"}
    sev = domain.find("features/sev[@supported='yes']")
    if sev is None:
        return _names(known - {"sev-snp"})
    guests = sev.findtext("maxESGuests") or ""
    return _names({"sev", *(("sev-es",) if guests.isdecimal() and int(guests) > 0 else ()), *known})


def _features(documents: HostDocuments, host_model: ElementTree.Element | None) -> tuple[str, ...]:
    """What a guest may require: all of the host model, or without that document what is named beyond its base model."""
    source = ElementTree.fromstring(documents.host_model) if documents.host_model else host_model
    if source is None:
        return ()
    refused = {"disable", "forbid"}
    return _names(entry.get("name") for entry in source.iter("feature") if entry.get("policy") not in refused)


def _list_required(host_model: ElementTree.Element | None) -> list[str]:
    features = () if host_model is None else host_model.iterfind("feature[@policy='require']")
    return [name for feature in features if (name := feature.get("name"))]


def _counter(capabilities: str) -> tuple[int, bool]:
    """libvirt tells it where the CPU promises a steady one."""
    counter = ElementTree.fromstring(capabilities).find("host/cpu/counter[@name='tsc']")
    hertz = "" if counter is None else counter.get("frequency", "")
    scales = counter is not None and counter.get("scaling") == "yes"
    return (int(hertz), scales) if hertz.isdecimal() and len(hertz) < _MOST_DIGITS else (0, False)


def _machines(capabilities: str, architecture: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(capabilities).findall(f"guest/arch[@name='{architecture}']/machine")


def _names(found: Any) -> tuple[str, ...]:
    return tuple(sorted({name for name in found if name}))


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"

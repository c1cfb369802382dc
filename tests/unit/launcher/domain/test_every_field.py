# Tests: kvedge/launcher/domain/
"""No field of a VMI is forgotten: each one changes the domain of some golden case, or is listed here with the reason.

A field counts as rendered when taking it out of a golden case changes what the converter makes of the case.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import fields

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.domain_xml import render_domain
from kvedge.resources.codec import DecodeError, KubeStruct, decode
from kvedge.resources.types.vmi import VirtualMachineInstance, VirtualMachineInstanceSpec
from tests.support.golden.domain_cases import GoldenCase, case_names, context_of, load_case
from tests.unit.launcher.domain.test_refusals import CASES

PASSED = "told by the prepared PassedDevice"
POD = "the Pod's, or its scheduling's"
CLUSTER = "the controller's or the handler's, outside the guest"
DISK = "told by the prepared DiskSource"
SEED = "in the cloud-init image"
BINDING = "the handler's: the domain sees a tap either way"
REFUSED = "refused, see test_refusals"
DEFAULT = "one value only, which is there without it; others are refused"

NOT_RENDERED = {
    **dict.fromkeys(
        (
            "VirtualMachineInstanceSpec.affinity",
            "VirtualMachineInstanceSpec.dnsConfig",
            "VirtualMachineInstanceSpec.dnsPolicy",
            "VirtualMachineInstanceSpec.nodeSelector",
            "VirtualMachineInstanceSpec.priorityClassName",
            "VirtualMachineInstanceSpec.resourceClaims",
            *(f"PodResourceClaim.{name}" for name in ("name", "resourceClaimName", "resourceClaimTemplateName")),
            "VirtualMachineInstanceSpec.schedulerName",
            "VirtualMachineInstanceSpec.serviceAccountName",
            "VirtualMachineInstanceSpec.subdomain",
            "VirtualMachineInstanceSpec.tolerations",
            "VirtualMachineInstanceSpec.topologySpreadConstraints",
            "Volume.containerPath",
            *(f"ContainerPath.{name}" for name in ("path", "readOnly")),
            "Resources.overcommitGuestOverhead",
            "Memory.reservedOverhead",
            *(f"ReservedOverhead.{name}" for name in ("addedOverhead", "memLock")),
        ),
        POD,
    ),
    **dict.fromkeys(
        (
            "VirtualMachineInstanceSpec.accessCredentials",
            "VirtualMachineInstanceSpec.evictionStrategy",
            "VirtualMachineInstanceSpec.livenessProbe",
            "VirtualMachineInstanceSpec.readinessProbe",
            *(f"Probe.{name}" for name in ("exec", "guestAgentPing", "httpGet", "tcpSocket")),
            *(f"Probe.{name}Seconds" for name in ("initialDelay", "timeout", "period")),
            *(f"Probe.{name}Threshold" for name in ("success", "failure")),
            "ExecAction.command",
            *(f"HttpGetAction.{name}" for name in ("port", "path", "host", "scheme", "httpHeaders")),
            *(f"HttpHeader.{name}" for name in ("name", "value")),
            *(f"TcpSocketAction.{name}" for name in ("port", "host")),
            "VirtualMachineInstanceSpec.terminationGracePeriodSeconds",
            "VirtualMachineInstanceSpec.utilityVolumes",
            *(f"UtilityVolume.{name}" for name in ("name", "claimName", "readOnly", "type")),
        ),
        CLUSTER,
    ),
    **dict.fromkeys(
        (f"{kind}.{name}" for kind in ("Gpu", "HostDevice") for name in ("deviceName", "claimName", "requestName")),
        PASSED,
    ),
    "VirtualMachineInstanceSpec.startStrategy": "DomainContext.start_paused, which a start --paused sets as well",
    "VirtualMachineInstanceSpec.hostname": f"{SEED}, and DHCP's",
    "VirtualMachineInstanceSpec.networks": BINDING,
    "Disk.tag": SEED,
    "Interface.tag": SEED,
    **dict.fromkeys(
        (
            "Network.name",
            "Network.pod",
            "Network.multus",
            "Network.resourceClaim",
            *(f"ClaimRequest.{name}" for name in ("claimName", "requestName")),
            "PodNetwork.vmNetworkCIDR",
            "PodNetwork.vmIPv6NetworkCIDR",
            "MultusNetwork.networkName",
            "MultusNetwork.default",
            "Interface.bridge",
            "Interface.masquerade",
            "Interface.ports",
            "Interface.portRanges",
            "Interface.binding",
            "Interface.dhcpOptions",
            "Port.port",
            "Port.name",
            "Port.protocol",
            "PortRange.start",
            "PortRange.end",
            "PortRange.protocol",
            "DhcpOptions.bootFileName",
            "DhcpOptions.tftpServerName",
            "DhcpOptions.ntpServers",
            "DhcpOptions.privateOptions",
            "PrivateOption.option",
            "PrivateOption.value",
            "PluginBinding.name",
            "Devices.autoattachPodInterface",
            "Devices.networkInterfaceMultiqueue",
        ),
        BINDING,
    ),
    **dict.fromkeys(
        (
            "Volume.containerDisk",
            "Volume.emptyDisk",
            "Volume.persistentVolumeClaim",
            "Volume.dataVolume",
            "Volume.hostDisk",
            "Volume.ephemeral",
            "Volume.configMap",
            "Volume.secret",
            "Volume.downwardAPI",
            "Volume.serviceAccount",
            "Volume.sysprep",
            "Volume.downwardMetrics",
            "Volume.memoryDump",
            "MemoryDumpSource.claimName",
            "MemoryDumpSource.readOnly",
            "MemoryDumpSource.hotpluggable",
            "Volume.containerPath",
            "VirtualMachineInstanceSpec.volumes",
            "Volume.name",
            "ContainerDisk.image",
            "ContainerDisk.imagePullSecret",
            "ContainerDisk.path",
            "ContainerDisk.imagePullPolicy",
            "EmptyDisk.capacity",
            "PersistentVolumeClaimSource.claimName",
            "PersistentVolumeClaimSource.readOnly",
            "PersistentVolumeClaimSource.hotpluggable",
            "DataVolumeSource.name",
            "DataVolumeSource.hotpluggable",
            "HostDisk.path",
            "HostDisk.type",
            "HostDisk.capacity",
            "HostDisk.shared",
            "EphemeralSource.persistentVolumeClaim",
            *(f"EphemeralClaim.{name}" for name in ("claimName", "readOnly")),
            *(f"ConfigMapSource.{name}" for name in ("name", "optional", "volumeLabel")),
            *(f"SecretSource.{name}" for name in ("secretName", "optional", "volumeLabel")),
            "ServiceAccountSource.serviceAccountName",
            *(f"DownwardApiSource.{name}" for name in ("fields", "volumeLabel")),
            *(f"SysprepSource.{name}" for name in ("configMap", "secret")),
        ),
        DISK,
    ),
    **dict.fromkeys(
        (
            "Volume.cloudInitNoCloud",
            "Volume.cloudInitConfigDrive",
            "CloudInit.secretRef",
            "CloudInit.userData",
            "CloudInit.userDataBase64",
            "CloudInit.networkDataSecretRef",
            "CloudInit.networkData",
            "CloudInit.networkDataBase64",
            "LocalObjectReference.name",
        ),
        SEED,
    ),
    **dict.fromkeys(
        (
            "Interface.slirp",
            "Interface.macvtap",
            "Interface.passt",
            "Watchdog.diag288",
        ),
        REFUSED,
    ),
    **dict.fromkeys(
        (
            "KernelBootContainer.image",
            "KernelBootContainer.imagePullSecret",
            "KernelBootContainer.imagePullPolicy",
            "KernelBootContainer.kernelPath",
            "KernelBootContainer.initrdPath",
        ),
        "told by the KernelFiles taken out of the image",
    ),
    **dict.fromkeys(
        ("Firmware.acpi", "AcpiTables.slicNameRef", "AcpiTables.msdmNameRef"), "told by the tables found in the Secrets"
    ),
    "Sev.attestation": "the handler's: the guest waits for its session",
    "Efi.persistent": "told by where the OvmfFiles are",
    **dict.fromkeys(("Input.type", "LunTarget.bus"), DEFAULT),
    "Disk.changedBlockTracking": "without effect in KubeVirt, too: VMs are selected by labels",
    "CdromTarget.readonly": "a CD-ROM is never written, whatever is said",
    "Timer.frequency": "no timer of KubeVirt's has one",
}


def _effective(case: GoldenCase) -> Iterator[str]:
    """The fields of the case's VMI without which the converter makes something else of it."""
    golden = render_domain(case.vmi, case.context)
    for path, field in _paths(VirtualMachineInstanceSpec, case.vmi_document["spec"], ()):
        if _render(_decoded_without(case.vmi_document, path), case.context) != golden:
            yield field


def _decoded_without(document: Mapping[str, Any], path: tuple[str | int, ...]) -> VirtualMachineInstance:
    """The VMI without a field; with another value of it, when a VMI cannot be without."""
    changed = copy.deepcopy(dict(document))
    _remove(changed["spec"], path)
    try:
        return decode(VirtualMachineInstance, changed)
    except DecodeError:
        changed = copy.deepcopy(dict(document))
        _alter(changed["spec"], path)
        return decode(VirtualMachineInstance, changed)


def _render(vmi: VirtualMachineInstance, context: DomainContext) -> str:
    """The domain, or the error: both show that the converter has seen a difference."""
    try:
        return render_domain(vmi, context)
    except ConversionError as error:
        return str(error)


def _remove(document: Any, path: tuple[str | int, ...]) -> None:
    for step in path[:-1]:
        document = document[step]
    del document[path[-1]]


def _alter(document: Any, path: tuple[str | int, ...]) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] *= 2


def _paths(
    cls: type[msgspec.Struct], document: dict[str, Any], before: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Each field of the document, by the path to it and by the name of its type."""
    hints = get_type_hints(cls)
    for field in msgspec.structs.fields(cls):
        if field.encode_name not in document:
            continue
        path = (*before, field.encode_name)
        yield path, f"{cls.__name__}.{field.encode_name}"
        value = document[field.encode_name]
        for nested in _structs_in(hints[field.name]):
            if isinstance(value, dict):
                yield from _paths(nested, value, path)
            elif isinstance(value, list):
                for index, entry in enumerate(value):
                    yield from _paths(nested, entry, (*path, index))


def _structs_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in get_args(hint):
        yield from _structs_in(argument)


def _all_fields(cls: type[msgspec.Struct], seen: set[type]) -> Iterator[str]:
    seen.add(cls)
    hints = get_type_hints(cls)
    for field in msgspec.structs.fields(cls):
        yield f"{cls.__name__}.{field.encode_name}"
        for nested in _structs_in(hints[field.name]):
            if nested not in seen:
                yield from _all_fields(nested, seen)


@pytest.fixture(scope="module")
def effective() -> set[str]:
    return {field for name in case_names() for field in _effective(load_case(name))}


def test_each_field_of_a_vmi_changes_some_golden_domain_or_is_listed_with_its_reason(effective: set[str]) -> None:
    every = set(_all_fields(VirtualMachineInstanceSpec, set()))
    assert every - effective - NOT_RENDERED.keys() == set(), "rendered by no golden case, and not listed"


def test_no_listed_field_is_rendered_after_all_or_gone(effective: set[str]) -> None:
    every = set(_all_fields(VirtualMachineInstanceSpec, set()))
    assert NOT_RENDERED.keys() - every == set(), "no field of a VMI"
    assert NOT_RENDERED.keys() & effective == set(), "rendered: take it off the list"


def test_each_field_that_is_listed_as_refused_is_refused() -> None:
    refused = {field.rpartition(".")[2] for field, _ in CASES}
    listed = {field.rpartition(".")[2] for field, reason in NOT_RENDERED.items() if reason == REFUSED}
    assert listed - refused == set()


def test_each_field_of_the_context_changes_some_golden_domain() -> None:
    effective: set[str] = set()
    for name in case_names():
        case = load_case(name)
        golden = render_domain(case.vmi, case.context)
        for path in _context_paths(case.context_document, ()):
            document = copy.deepcopy(dict(case.context_document))
            _remove(document, path)
            if _render_with(case, document) != golden:
                effective.add(_snake(str(path[-1])))
    assert _context_fields(DomainContext) - effective - _IN_EVERY_CASE - _FOR_THE_USER == _REFUSING


# The support for golden cases fills them in for each case.
_IN_EVERY_CASE = {"architecture", "serial_socket", "vnc_socket", "tap", "mac", "path", "format"}
# Said to the VM's user, and not to libvirt.
_FOR_THE_USER = {"note"}
# Only refuses; see test_refusals.
_REFUSING = {"redirects_usb", "passt_obstacle"}


def _render_with(case: GoldenCase, document: dict[str, Any]) -> str | None:
    try:
        return _render(case.vmi, context_of(case.vmi, document))
    except msgspec.ValidationError:
        # A file without a path is no context at all.
        return None


def _context_paths(document: dict[str, Any], before: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for key, value in document.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from _context_paths(value, (*before, key))
        for index, entry in enumerate(value if isinstance(value, list) else ()):
            if isinstance(entry, dict):
                yield from _context_paths(entry, (*before, key, index))


def _context_fields(cls: type) -> set[str]:
    found = set()
    hints = get_type_hints(cls)
    for field in fields(cls):
        found.add(field.name)
        for argument in (hints[field.name], *get_args(hints[field.name])):
            if isinstance(argument, type) and issubclass(argument, Struct) and not issubclass(argument, KubeStruct):
                found |= _context_fields(argument)
    return found


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)

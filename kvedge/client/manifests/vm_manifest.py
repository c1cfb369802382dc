"""The manifests of `create vm` and `launch`.

Pure: options in, a document out. What `create vm` makes is what virtctl makes of the same flags.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kvedge.client.manifests.cloud_config import Login, cloud_config
from kvedge.client.manifests.launch_disk import LaunchDisk, disk_name
from kvedge.client.manifests.type_manifests import TypeChoice, matcher_of
from kvedge.client.manifests.volume_params import VolumeParams, flag_error
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.values.name_grammar import LABEL_LENGTH
from kvedge.resources.values.quantities import QuantityError, parse_quantity

RUN_STRATEGIES: Final = ("Always", "Manual", "Halted", "Once", "RerunOnFailure")
_BINARY: Final = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_DECIMAL: Final = ("E", "P", "T", "G", "M", "k", "", "m", "u", "n")
DEFAULT_MEMORY: Final = "512Mi"
_CLOUD_INIT_DISK: Final = "cloudinitdisk"


class CloudInitData(Struct, frozen=True):
    """What goes into the cloud-init volume: a login, or user data as it is."""

    source: str = "nocloud"
    login: Login = field(default_factory=Login)
    user_data: str = ""
    user_data_base64: str = ""
    network_data_base64: str = ""
    # A Secret brings keys: the volume must be there for them, with whatever in it.
    is_needed: bool = False


class VmOptions(Struct, frozen=True):
    """The flags of `create vm`."""

    name: str
    run_strategy: str = "Always"
    grace_period: int = 180
    # Empty: by an instance type, or the default.
    memory: str = ""
    instancetype: TypeChoice = field(default_factory=TypeChoice)
    preference: TypeChoice = field(default_factory=TypeChoice)
    container_disks: Sequence[VolumeParams] = ()
    claims: Sequence[VolumeParams] = ()
    sysprep: JsonObject | None = None
    access_credentials: Sequence[JsonObject] = ()
    cloud_init: CloudInitData = field(default_factory=CloudInitData)


class LaunchOptions(Struct, frozen=True):
    """The flags of `launch`."""

    name: str
    image: str
    memory: str = "1Gi"
    cpus: int = 1
    # The instance type, instead of memory and CPUs, and the preference of the guest's system: [KIND/]NAME.
    type: str = ""
    os: str = ""
    disk_size: str = ""
    # The image copied into a claim; without it the guest's disk ends with its run.
    disk: LaunchDisk | None = None
    # A claim that is there, instead of an image: its disk as it is.
    claim: str = ""
    run_strategy: str = "Always"
    labels: tuple[tuple[str, str], ...] = ()
    cloud_init: CloudInitData = field(default_factory=CloudInitData)
    # Besides the Pod network, as a VM names them: NAME or NAMESPACE/NAME.
    networks: tuple[str, ...] = ()
    # Images in CD-ROM drives; with `installs` the image itself is in the first, and boots once the disk has nothing.
    cdroms: tuple[str, ...] = ()
    installs: bool = False


def vm_manifest(options: VmOptions) -> JsonObject:
    """The VirtualMachine that virtctl makes of these flags.

    Raises:
        UsageError: for a memory that is no quantity.
    """
    volumes: list[JsonObject] = [
        {"name": disk.name, "containerDisk": {"image": disk.src}} for disk in options.container_disks
    ]
    volumes += [{"name": claim.name, "persistentVolumeClaim": {"claimName": claim.src}} for claim in options.claims]
    if options.sysprep is not None:
        volumes.append({"name": "sysprepdisk", "sysprep": options.sysprep})
    volumes += _cloud_init_volumes(options.cloud_init)
    # Without orders, guests boot from the volumes as they stand.
    ordered = [
        (volume.boot_order, volume.name)
        for volume in (*options.container_disks, *options.claims)
        if volume.boot_order is not None
    ]
    disks = [{"name": name, "bootOrder": order} for order, name in ordered]
    first = min(ordered)[1] if ordered else str(volumes[0]["name"]) if volumes else ""
    matchers = {
        part.member: matcher
        for part, choice in ((INSTANCETYPE, options.instancetype), (PREFERENCE, options.preference))
        if (matcher := matcher_of(part, choice, volumes, first)) is not None
    }
    # A type that may be read from a volume may also not be there: the VM has memory for that case.
    has_type = INSTANCETYPE.member in matchers and (options.instancetype.name or options.instancetype.is_asked_for)
    memory = {} if has_type else {"memory": {"guest": canonical_size("memory", options.memory or DEFAULT_MEMORY)}}
    spec: JsonObject = {
        "domain": {"devices": {"disks": disks} if disks else {}, **memory, "resources": {}},
        "terminationGracePeriodSeconds": options.grace_period,
    }
    if options.access_credentials:
        spec["accessCredentials"] = list(options.access_credentials)
    if volumes:
        spec["volumes"] = volumes
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": options.name},
        "spec": {**matchers, "runStrategy": options.run_strategy, "template": {"metadata": {}, "spec": spec}},
        "status": {},
    }


def launch_manifest(options: LaunchOptions) -> JsonObject:
    """A VM that boots an image with virtio devices, and the interface that VMs get when they name none.

    Raises:
        UsageError: for sizes that are no quantities.
    """
    templates: list[JsonObject] = []
    volumes: list[JsonObject] = [{"name": "system", "containerDisk": {"image": options.image}}]
    if options.disk is not None:
        name = disk_name(options.name)
        templates = [options.disk.template(name, canonical_size("disk", options.disk.size))]
        volumes = [{"name": "system", "dataVolume": {"name": name}}]
    elif options.claim:
        volumes = [{"name": "system", "persistentVolumeClaim": {"claimName": options.claim}}]
    if options.disk_size:
        volumes.append({"name": "data", "emptyDisk": {"capacity": canonical_size("disk-size", options.disk_size)}})
    drives = _drives(options)
    volumes += [{"name": name, "containerDisk": {"image": image}} for name, image in drives.items()]
    volumes += _cloud_init_volumes(options.cloud_init)
    labels = dict(options.labels)
    if len(options.name) <= LABEL_LENGTH:
        # For Services and selectors, as KubeVirt's own examples label their VMs.
        labels.setdefault("kubevirt.io/vm", options.name)
    size: JsonObject = {
        # Preferences count sockets unless they say something else.
        "cpu": {"sockets" if options.os else "cores": options.cpus},
        "memory": {"guest": canonical_size("memory", options.memory)},
    }
    devices: JsonObject = {
        "disks": [_disk_of(volume["name"], {"bus": "virtio"}, drives) for volume in volumes],
        "rng": {},
    }
    if options.os:
        devices = {"disks": [_disk_of(volume["name"], {}, drives) for volume in volumes]}
    if options.installs:
        for order, disk in enumerate(("system", "installer"), 1):
            next(each for each in devices["disks"] if each["name"] == disk)["bootOrder"] = order
    matchers = {
        part.member: matcher
        for part, name in ((INSTANCETYPE, options.type), (PREFERENCE, options.os))
        if name and (matcher := matcher_of(part, TypeChoice(name), volumes, "")) is not None
    }
    spec: JsonObject = {
        "domain": {**({} if options.type else size), "devices": devices},
        "volumes": volumes,
    }
    if options.networks:
        # The default interface is the only one of a VM that names none.
        spec["domain"]["devices"]["interfaces"] = [{"name": "default", "bridge": {}}]
        spec["networks"] = [{"name": "default", "pod": {}}]
    for name, network in _names_of_networks(options.networks).items():
        spec["domain"]["devices"]["interfaces"].append({"name": name, "bridge": {}})
        spec["networks"].append({"name": name, "multus": {"networkName": network}})
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": options.name, **({"labels": labels} if labels else {})},
        "spec": {
            **matchers,
            "runStrategy": options.run_strategy,
            **({"dataVolumeTemplates": templates} if templates else {}),
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _drives(options: LaunchOptions) -> dict[str, str]:
    """The CD-ROM drives, by name, and the image in each."""
    found = {"installer": options.image} if options.installs else {}
    return found | {f"cdrom-{number}": image for number, image in enumerate(options.cdroms, 1)}


def _disk_of(name: str, target: JsonObject, drives: Mapping[str, str]) -> JsonObject:
    # The bus of a drive is left to the preference, or to what its architecture has.
    return {"name": name, "cdrom": {}} if name in drives else {"name": name, "disk": target}


def _names_of_networks(networks: Sequence[str]) -> dict[str, str]:
    """What the VM calls them, by the networks' own names, which may have dots and a namespace."""
    found: dict[str, str] = {}
    for network in networks:
        name = re.sub(r"[^A-Za-z0-9_-]", "-", network)
        if name == "default" or name in found:
            name = f"{name}-{len(found) + 1}"
        found[name] = network
    return found


def canonical_size(flag: str, text: str) -> str:
    """A quantity as Kubernetes writes it back: 1024Mi is 1Gi.

    Raises:
        UsageError: when it is none, or not more than nothing.
    """
    try:
        value = parse_quantity(text)
    except QuantityError as error:
        raise flag_error(flag, str(error)) from error
    if value <= 0:
        raise flag_error(flag, f"{text} is not more than 0")
    if re.search(r"[eE]\d|[eE][+-]", text):
        return text
    if text.endswith("i") and value >= 1024 and value.denominator == 1:
        for power, suffix in zip(range(6, 0, -1), _BINARY, strict=True):
            if value % 1024**power == 0:
                return f"{value // 1024**power}{suffix}"
        return str(value)
    thousandths = value * 10**9
    for power, suffix in zip(range(9, -1, -1), _DECIMAL, strict=True):
        if thousandths % 1000**power == 0:
            return f"{thousandths // 1000**power}{suffix}"
    raise flag_error(flag, f"{text} is too fine")


def _cloud_init_volumes(data: CloudInitData) -> list[JsonObject]:
    content: JsonObject = {}
    if data.user_data_base64:
        content["userDataBase64"] = data.user_data_base64
    elif data.user_data:
        content["userData"] = data.user_data
    elif data.login.is_given or data.network_data_base64 or data.is_needed:
        content["userData"] = cloud_config(data.login)
    if data.network_data_base64:
        content["networkDataBase64"] = data.network_data_base64
    if not content or data.source == "none":
        return []
    kind = "cloudInitConfigDrive" if data.source == "configdrive" else "cloudInitNoCloud"
    return [{"name": _CLOUD_INIT_DISK, kind: content}]

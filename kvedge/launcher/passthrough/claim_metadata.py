"""Which device a request of one of the Pod's claims (DRA) was given: the file in which the claim's driver says it.

Called by `functions` and `host_devices`. Reads the Pod's own files, which a runtime mounts before the launcher starts
(KEP-5304): `resourceclaims/<claim>/<request>/<driver>-metadata.json`, and `resourceclaimtemplates/<name in the Pod>/…`.
A file is a stream of JSON documents, the same thing in each version that the driver speaks. A driver of anybody's wrote
it: it is bounded, and read into types.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from kvedge.launcher.launcher_errors import BadRequest
from kvedge.resources.host_devices.claimed_devices import ClaimedDevice
from kvedge.resources.types.core import PodResourceClaim
from kvedge.resources.values.name_grammar import is_label, is_subdomain

METADATA_DIRECTORY: Final = "/var/run/kubernetes.io/dra-device-attributes"
_SUFFIX: Final = "-metadata.json"
_VERSION: Final = "metadata.resource.k8s.io/v1alpha1"
_PCI: Final = "resource.kubernetes.io/pciBusID"
_MDEV: Final = "mdevUUID"
# A device has at most 32 attributes of at most 64 characters.
_LARGEST: Final = 256 << 10
# A request of one device has one file, and one document in it for each version.
_MOST_FILES: Final = 64
_MOST_DOCUMENTS: Final = 16
_LONGEST_SHOWN: Final = 80
_LONGEST_REASON: Final = 200
_RESTART: Final = "restart the VM: its Pod is made anew"
_NO_DRIVER: Final = "use a DRA driver that tells Pods of their devices (KEP-5304), and bind the device to vfio-pci"


class _Attribute(msgspec.Struct, kw_only=True):
    string: str | None = None


class _Device(msgspec.Struct, kw_only=True):
    driver: str
    attributes: dict[str, _Attribute] = {}


class _Request(msgspec.Struct, kw_only=True):
    name: str
    devices: list[_Device] = []


class _Metadata(msgspec.Struct, kw_only=True):
    requests: list[_Request] = []


class ToldDevice(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver says of the one device of a request; empty where it does not."""

    driver: str
    pci_address: str = ""
    mdev_uuid: str = ""

    @property
    def giver(self) -> str:
        """The driver, in words."""
        return f"the DRA driver {self.driver}"


def read_told_device(device: ClaimedDevice, claims: Sequence[PodResourceClaim], root: str) -> ToldDevice:
    """What is said of the device of an entry.

    Raises:
        BadRequest: when nothing is said that can be understood, or not of exactly one device.
    """
    where = _directory(device, claims)
    path = _find_file(device, f"{root}{METADATA_DIRECTORY}/{where}")
    try:
        metadata = msgspec.convert(_choose_document(_read(path)), _Metadata)
    except (OSError, ValueError, RecursionError) as error:
        said = str(error)[:_LONGEST_REASON]
        raise _bad(device, f"{os.path.basename(path)[:_LONGEST_SHOWN]} cannot be read: {said}", _NO_DRIVER) from error
    found = [each for request in metadata.requests if _is_of(request.name, device.request) for each in request.devices]
    if len(found) != 1:
        raise _bad(
            device,
            f"the driver tells of {len(found)} devices, and a guest's entry is exactly one",
            "ask for count: 1 in the claim, and make a request of each device",
        )
    return _read_attributes(found[0])


def _is_of(name: str, request: str) -> bool:
    """One that chooses among several is told with the name of the chosen one behind its own."""
    return name == request or name.startswith(f"{request}/")


def _read_attributes(device: _Device) -> ToldDevice:
    attributes = device.attributes
    # An attribute without a domain is of the driver's.
    uuid = attributes.get(_MDEV) or attributes.get(f"{device.driver}/{_MDEV}") or _Attribute()
    address = attributes.get(_PCI) or _Attribute()
    return ToldDevice(
        driver=device.driver[:_LONGEST_SHOWN], pci_address=address.string or "", mdev_uuid=uuid.string or ""
    )


def _directory(device: ClaimedDevice, claims: Sequence[PodResourceClaim]) -> str:
    claim = next((each for each in claims if each.name == device.claim), None)
    if claim is None:
        raise _bad(device, "the VM has no such claim in resourceClaims", "name one that it has")
    name = claim.resource_claim_name or ""
    kind, folder = ("resourceclaims", name) if name else ("resourceclaimtemplates", claim.name)
    if not is_subdomain(folder) or not is_label(device.request):
        raise _bad(device, "it is no name of a claim and of a request", "name a request of the claim")
    return f"{kind}/{folder}/{device.request}"


def _find_file(device: ClaimedDevice, directory: str) -> str:
    try:
        with os.scandir(directory) as entries:
            found = [entry.path for entry in islice(entries, _MOST_FILES) if entry.name.endswith(_SUFFIX)]
    except FileNotFoundError:
        found = []
    except OSError as error:
        raise _bad(device, f"what its driver tells cannot be read: {error.strerror}", _RESTART) from error
    if len(found) > 1:
        raise _bad(
            device, f"{len(found)} drivers have devices of it, and a guest's entry is exactly one", "ask for one device"
        )
    if not found:
        raise _bad(device, f"no driver has told the Pod of it in {METADATA_DIRECTORY}", _NO_DRIVER)
    return found[0]


def _read(path: str) -> str:
    # A pipe would keep the launcher waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no file")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return data.decode()


def _choose_document(text: str) -> Any:
    """The first one of a version that is known here."""
    others = []
    for document in islice(_documents(text), _MOST_DOCUMENTS):
        version = document.get("apiVersion") if isinstance(document, dict) else None
        if version == _VERSION:
            return document
        others.append(str(version)[:_LONGEST_SHOWN])
    raise ValueError(f"it has no document of {_VERSION} but {', '.join(others[:2]) or 'none'}")


def _documents(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        document, at = decoder.raw_decode(text, at)
        yield document


def _bad(device: ClaimedDevice, detail: str, remedy: str) -> BadRequest:
    shown = f"{device.request[:_LONGEST_SHOWN]} of claim {device.claim[:_LONGEST_SHOWN]}"
    return BadRequest(f"{device.field}.claimName", f"request {shown}: {detail}", remedy)

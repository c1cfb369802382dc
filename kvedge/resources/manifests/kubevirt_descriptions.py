"""What `kubectl explain kubevirt.spec` says of fields, made from the table of what each key does.

Read by field_descriptions.py. Touches nothing. A field below a key of the table says what that key says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec.inspect as shapes

from kvedge.resources.codec import shape_of
from kvedge.resources.configuration.configuration_table import Effect, Key, key_of
from kvedge.resources.types.kubevirt import KubeVirtSpec

_SENTENCES: Final[Mapping[Effect, str]] = {
    Effect.LATER: "Accepted for later",
    Effect.NONE: "Does not apply here",
}
_RESOURCE: Final[Mapping[str, str]] = {
    "resourceName": "The resource that VMs name in deviceName, such as example.com/gpu.",
    "externalResourceProvider": "Whether another device plugin than kvedge's offers it.",
}
# Types that stand in several places, of which no one's reason is theirs; and those of entries of lists.
_SHARED: Final[Mapping[str, Mapping[str, str]]] = {
    "ArchSpecificConfiguration": {
        "machineType": "The machine type of VMs that name none.",
        "emulatedMachines": "Machine types that VMs may ask for, with * for any letters.",
        "ovmfPath": "The directory with UEFI firmware, on every node; found unless given.",
    },
    "PciHostDevice": {
        "pciVendorSelector": "The maker and the model, as `lspci -nn` shows them: 10de:1eb8.",
        **_RESOURCE,
    },
    "MediatedHostDevice": {
        "mdevNameSelector": "The name of the type, with _ for spaces: GRID_T4-1Q.",
        **_RESOURCE,
    },
    "UsbHostDevice": {
        "selectors": "The devices that go to a guest together, one for each selector.",
        **_RESOURCE,
    },
    "UsbSelector": {
        "vendor": "The maker's number, as lsusb shows it: 46f4.",
        "product": "The model's number: 0001.",
        "serial": "kvedge's own: the serial number that the device must have; any unless given.",
        "port": "kvedge's own: the port that the device must be in, as `kvedge device list` shows it: 1-2.3; any "
        "unless given.",
    },
    "LabelSelector": {
        "matchLabels": "Labels that must be there.",
        "matchExpressions": "Conditions on labels, all of which must hold.",
    },
    "LabelSelectorRequirement": {
        "key": "The label.",
        "operator": "In, NotIn, Exists or DoesNotExist.",
        "values": "With In and NotIn, which values.",
    },
    "LocalObjectReference": {"name": "Its name."},
    "Switch": {"enabled": "Whether there are any."},
}


def kubevirt_descriptions() -> dict[str, dict[str, str]]:
    """Texts by type and field."""
    found: dict[str, dict[str, str]] = {name: dict(texts) for name, texts in _SHARED.items()}
    for owner, field, text in _texts(shape_of(KubeVirtSpec), ""):
        if owner not in _SHARED:
            found.setdefault(owner, {})[field] = text
    return found


def _texts(shape: shapes.Type, at: str) -> Iterator[tuple[str, str, str]]:
    match shape:
        case shapes.StructType():
            for field in shape.fields:
                path = f"{at}.{field.encode_name}" if at else field.encode_name
                key = key_of(path)
                if key is not None:
                    yield shape.cls.__name__, field.encode_name, _text(key, path)
                yield from _texts(field.type, path)
        case shapes.UnionType():
            for part in shape.types:
                yield from _texts(part, at)
        case shapes.ListType():
            yield from _texts(shape.item_type, at)
        case _:
            return


def _text(key: Key, path: str) -> str:
    text = key.text if key.path == path else ""
    sentence = f"{_SENTENCES[key.effect]}: {key.reason}." if key.effect in _SENTENCES else ""
    return f"{text} {sentence}".strip() or key.text

"""What a clone does not have in common with its source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvedge.controller.clones.clone_patches import TooManyKeys, make_patches, unknown_interfaces
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.types.protection.clones import VirtualMachineCloneSpec

DOMAIN = "/spec/template/spec/domain"
MAC = "02:00:00:00:00:0a"


def source(domain: JsonObject | None = None, **metadata: Any) -> JsonObject:
    template = {"metadata": metadata.pop("template", {}), "spec": {"domain": domain or {}}}
    return {"metadata": metadata, "spec": {"template": template}}


def operations(document: JsonObject, **spec: Any) -> list[Any]:
    return [json.loads(text) for text in make_patches(document, decode(VirtualMachineCloneSpec, spec))]


def test_addresses_are_given_or_cleared_and_others_made_at_the_start() -> None:
    interfaces = [
        {"name": "a", "macAddress": "02:00:00:00:00:01"},
        {"name": "b"},
        {"name": "c", "macAddress": "02:00:00:00:00:02"},
    ]
    done = operations(source({"devices": {"interfaces": interfaces}}), newMacAddresses={"c": MAC, "a": ""})
    assert done == [
        {"op": "remove", "path": f"{DOMAIN}/devices/interfaces/0/macAddress"},
        {"op": "add", "path": f"{DOMAIN}/devices/interfaces/2/macAddress", "value": MAC},
    ]


@pytest.mark.parametrize(
    ("firmware", "serial", "done"),
    [
        pytest.param(None, None, [], id="none"),
        pytest.param(
            None, "s", [{"op": "add", "path": f"{DOMAIN}/firmware", "value": {"serial": "s"}}], id="a new one"
        ),
        pytest.param(
            {"uuid": "u", "serial": "old"},
            None,
            [
                {"op": "remove", "path": f"{DOMAIN}/firmware/serial"},
                {"op": "remove", "path": f"{DOMAIN}/firmware/uuid"},
            ],
            id="both are cleared",
        ),
        pytest.param(
            {"serial": "old"}, "s", [{"op": "add", "path": f"{DOMAIN}/firmware/serial", "value": "s"}], id="exchanged"
        ),
        pytest.param({"bootloader": {"bios": {}}}, None, [], id="nothing to clear"),
    ],
)
def test_the_firmware_is_another_ones(firmware: Any, serial: str | None, done: list[JsonObject]) -> None:
    spec = {} if serial is None else {"newSMBiosSerial": serial}
    assert operations(source({} if firmware is None else {"firmware": firmware}), **spec) == done


def test_filters_leave_what_they_name() -> None:
    document = source(
        labels={"key1": "a", "key2": "b"},
        annotations={
            "key1": "a",
            "key2": "b",
            "restore.kubevirt.io/lastRestoreUID": "x",
            "kubectl.kubernetes.io/y": "",
        },
        template={
            "labels": {"key1": "a"},
            "annotations": {"kubevirt.io/pci-topology-version": "v3", "key2": "b"},
        },
    )
    filters = {"annotationFilters": ["somekey/*"], "labelFilters": ["*"]}
    done = operations(document, labelFilters=["*", "!key2"], annotationFilters=["key1"], template=filters)
    assert done == [
        {"op": "replace", "path": "/metadata/labels", "value": {"key1": "a"}},
        {"op": "replace", "path": "/metadata/annotations", "value": {"key1": "a"}},
        {
            "op": "replace",
            "path": "/spec/template/metadata/annotations",
            "value": {"kubevirt.io/pci-topology-version": "v3"},
        },
    ]


def test_no_filters_keep_all_and_an_empty_list_drops_all() -> None:
    document = source(labels={"a": "b"}, annotations={"a": "b"})
    assert operations(document) == []
    assert operations(document, labelFilters=[]) == [{"op": "replace", "path": "/metadata/labels", "value": {}}]
    assert operations(source(), labelFilters=["x"]) == []


def test_patches_of_the_user_come_last() -> None:
    text = '{"op": "add", "path": "/spec/template/spec/hostname", "value": "twin"}'
    document = source({"firmware": {"uuid": "u"}})
    assert operations(document, patches=[text])[-1] == json.loads(text)


def test_very_many_keys_are_not_filtered() -> None:
    document = source(labels={f"key-{number}": "" for number in range(1001)})
    with pytest.raises(TooManyKeys, match=r"metadata\.labels"):
        operations(document, labelFilters=["a"])
    assert operations(document) == []


def test_interfaces_that_are_not_there_are_named() -> None:
    spec = decode(VirtualMachineCloneSpec, {"newMacAddresses": {"a": MAC, "typo": MAC}})
    assert unknown_interfaces(source({"devices": {"interfaces": [{"name": "a"}]}}), spec) == ["typo"]

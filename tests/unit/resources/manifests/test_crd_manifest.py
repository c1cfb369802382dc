"""The CRDs say what the types say, and the files in k3s/crds are up to date."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kvedge.resources.codec import KubeStruct
from kvedge.resources.manifests import crd_manifest
from kvedge.resources.manifests.crd_manifest import CUSTOM_KINDS
from kvedge.resources.manifests.field_descriptions import DESCRIPTIONS
from kvedge.resources.manifests.schema_manifest import SchemaError, Schemas, struct_schema
from kvedge.resources.types.scaling.pools import VirtualMachinePoolSpec
from kvedge.resources.types.vm import VirtualMachineSpec

ROOT = Path(__file__).parents[4]


@functools.cache
def crds() -> tuple[dict[str, Any], ...]:
    """All of them, made once: no test here changes one."""
    return tuple(crd_manifest.crds())


def schema_at(crd_name: str, path: str) -> Any:
    crd = next(item for item in crds() if item["metadata"]["name"] == crd_name)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path.split("."):
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


def crds_of(group: str) -> list[dict[str, Any]]:
    return [crd for crd in crds() if crd["spec"]["group"] == group]


def test_the_files_in_k3s_are_those_that_the_types_make() -> None:
    # In Python alone they take seconds to read.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    written = {path.name: yaml.load(path.read_text(), loader) for path in (ROOT / "k3s/crds").glob("*.yaml")}
    assert written == {f"{crd['metadata']['name']}.yaml": crd for crd in crds()}, "run packaging/crds"


def test_v1_is_stored_and_v1alpha3_is_served_as_deprecated() -> None:
    for crd in crds_of("kubevirt.io"):
        stored, old = crd["spec"]["versions"]
        is_old = "Preset" in crd["spec"]["names"]["kind"]
        assert stored.get("deprecated", False) is is_old
        assert (stored["name"], stored["storage"], stored["served"]) == ("v1", True, True)
        assert (old["name"], old["storage"], old["served"], old["deprecated"]) == ("v1alpha3", False, True, True)


def test_all_kinds_but_vmis_have_a_status_subresource() -> None:
    found = {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["subresources"] for crd in crds_of("kubevirt.io")}
    without = {kind for kind, subresources in found.items() if "status" not in subresources}
    assert without == {"VirtualMachineInstance", "VirtualMachineInstancePreset"}


def test_sets_are_scaled_by_a_subresource() -> None:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.labelSelector",
    }
    scales = {
        crd["spec"]["names"]["kind"]: version["subresources"]["scale"]
        for crd in crds()
        for version in crd["spec"]["versions"]
        if "scale" in version["subresources"]
    }
    assert scales == {"VirtualMachineInstanceReplicaSet": paths, "VirtualMachinePool": paths}
    # An autoscaler cannot read a number that is not there.
    assert schema_at("virtualmachineinstancereplicasets.kubevirt.io", "spec.replicas")["default"] == 1


def test_the_crd_of_kubevirt_has_the_operators_label() -> None:
    labels = {crd["spec"]["names"]["kind"]: crd["metadata"]["labels"] for crd in crds_of("kubevirt.io")}
    assert labels.pop("KubeVirt") == {"operator.kubevirt.io": ""}
    assert all(others == {"kubevirt.io": ""} for others in labels.values())


def test_a_vm_without_status_is_stopped() -> None:
    status = schema_at("virtualmachines.kubevirt.io", "status")
    assert status["default"] == {}
    assert status["properties"]["printableStatus"]["default"] == "Stopped"


def test_quantities_are_numbers_or_text() -> None:
    guest = schema_at("virtualmachineinstances.kubevirt.io", "spec.domain.memory.guest")
    # No structural schema names "a number or a text"; one that says nothing of the type lets both by.
    assert keeps(guest)
    assert not guest.keys() & {"type", "anyOf", "x-kubernetes-int-or-string"}
    requests = schema_at("virtualmachineinstances.kubevirt.io", "spec.domain.resources.requests")
    assert requests["additionalProperties"] == {"x-kubernetes-preserve-unknown-fields": True}
    port = schema_at("virtualmachineinstances.kubevirt.io", "spec.readinessProbe.tcpSocket.port")
    assert port["x-kubernetes-int-or-string"] is True


def test_words_of_which_one_may_stand_are_listed() -> None:
    policy = schema_at("virtualmachineinstances.kubevirt.io", "spec.domain.ioThreadsPolicy")
    assert policy["enum"] == ["auto", "shared", "supplementalPool"]


def test_unknown_fields_are_kept_where_users_write_and_pruned_where_roles_do() -> None:
    assert not [
        path for path, node in typed_objects(schema_at("virtualmachines.kubevirt.io", "spec")) if not keeps(node)
    ]
    assert not [path for path, node in typed_objects(schema_at("virtualmachines.kubevirt.io", "status")) if keeps(node)]


def keeps(node: dict[str, Any]) -> bool:
    return node.get("x-kubernetes-preserve-unknown-fields") is True


def typed_objects(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, schema)] if "properties" in schema else []
    for name, part in schema.get("properties", {}).items():
        found += typed_objects(part, f"{path}.{name}")
    if "items" in schema:
        found += typed_objects(schema["items"], f"{path}[]")
    return found


def test_metadata_of_a_template_is_typed() -> None:
    metadata = schema_at("virtualmachines.kubevirt.io", "spec.template.metadata")
    assert metadata["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert metadata["nullable"] is True


def test_texts_name_fields_as_manifests_do() -> None:
    assert "runStrategy" in schema_at("virtualmachines.kubevirt.io", "spec")["description"]


def test_a_type_without_a_structural_schema_is_refused() -> None:
    class Odd(KubeStruct):
        value: list[int] | str = ""

    with pytest.raises(SchemaError, match="union"):
        struct_schema(Odd, keep_unknown=True)


@pytest.mark.parametrize("crd", crds(), ids=lambda crd: crd["metadata"]["name"])
def test_every_field_of_every_kind_has_a_text(crd: dict[str, Any]) -> None:
    for version in crd["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert schema["description"]
        silent = [path for path, node in described(schema) if not node.get("description", "").strip()]
        assert silent == [".metadata"], "only the server itself describes metadata"


def described(schema: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = []
    for name, part in schema.get("properties", {}).items():
        found += [(f"{path}.{name}", part), *described(part, f"{path}.{name}")]
    if "items" in schema:
        found += described(schema["items"], f"{path}[]")
    return found


def test_every_text_belongs_to_a_field() -> None:
    roots = [part for custom in CUSTOM_KINDS for part in (custom.spec, custom.status) if part is not None]
    names = {cls.__name__: cls for root in roots for cls in structs(root)}
    fields = {name: {field.encode_name for field in msgspec.structs.fields(cls)} for name, cls in names.items()}
    assert [
        f"{name}.{field}"
        for name, texts in DESCRIPTIONS.items()
        for field in texts
        if field not in fields.get(name, ())
    ] == []


def structs(cls: type) -> set[type]:
    found: set[type] = set()

    def walk(shape: Any) -> None:
        if isinstance(shape, msgspec.inspect.StructType) and shape.cls not in found:
            found.add(shape.cls)
            for field in shape.fields:
                walk(field.type)
        for name in ("types", "item_type", "value_type", "type"):
            part = getattr(shape, name, None)
            for inner in part if isinstance(part, tuple) else (part,):
                if isinstance(inner, msgspec.inspect.Type):
                    walk(inner)

    walk(msgspec.inspect.type_info(cls))
    return found


def test_a_crd_fits_into_the_annotation_that_kubectl_apply_keeps() -> None:
    sizes = {crd["metadata"]["name"]: len(msgspec.json.encode(crd)) for crd in crds()}
    # metadata.annotations holds 262144 bytes at most.
    assert max(sizes.values()) < 240_000, sizes


def test_a_type_of_many_documents_is_written_once_and_each_document_has_keys_of_its_own() -> None:
    schemas = Schemas([VirtualMachineSpec, VirtualMachinePoolSpec])
    vm = schemas.schema(VirtualMachineSpec, keep_unknown=True)
    pool = schemas.schema(VirtualMachinePoolSpec, keep_unknown=True)
    vm_in_pool = pool["properties"]["virtualMachineTemplate"]["properties"]["spec"]
    assert vm_in_pool["properties"]["template"]["properties"] is vm["properties"]["template"]["properties"]
    vm["required"] = ["other"]
    vm["properties"]["template"]["default"] = {}
    assert schemas.schema(VirtualMachineSpec, keep_unknown=True) == struct_schema(VirtualMachineSpec, keep_unknown=True)

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.rpc import kubernetes_pb2 as k
from kvedge.standalone.apiserver.kinds.built_in import MESSAGES
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest, TooLarge, UnsupportedMediaType
from kvedge.standalone.apiserver.wire.protobuf_body import MAGIC, MOST_MESSAGES
from kvedge.standalone.apiserver.wire.protobuf_body import decode as decode_known


def decode(body: bytes) -> dict[str, Any]:
    return decode_known(body, MESSAGES)


def envelope(raw: bytes, kind: str = "ConfigMap", version: str = "v1", **more: Any) -> bytes:
    unknown = k.Unknown(typeMeta=k.TypeMeta(apiVersion=version, kind=kind), raw=raw, **more)
    return MAGIC + unknown.SerializeToString()


def decoded(message: Any, version: str = "v1", kind: str = "") -> dict[str, Any]:
    body = envelope(message.SerializeToString(), kind or message.DESCRIPTOR.name, version)
    found = decode(body)
    assert found.pop("apiVersion") == version
    assert found.pop("kind") == (kind or message.DESCRIPTOR.name)
    return found


def test_a_namespace_as_go_writes_it_byte_for_byte() -> None:
    # metadata{name "shop", generateName "", creationTimestamp of no moment}, spec{}, status{phase ""}
    metadata = b"\x0a\x04shop" + b"\x12\x00" + b"\x42\x00"
    namespace = b"\x0a" + bytes([len(metadata)]) + metadata + b"\x12\x00" + b"\x1a\x02\x0a\x00"
    type_meta = b"\x0a\x02v1" + b"\x12\x09Namespace"
    unknown = b"\x0a" + bytes([len(type_meta)]) + type_meta
    unknown += b"\x12" + bytes([len(namespace)]) + namespace + b"\x1a\x00" + b"\x22\x00"
    assert decode(b"k8s\x00" + unknown) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop"},
        "spec": {},
        "status": {},
    }


def test_bytes_become_base64_and_empty_entries_of_maps_stay() -> None:
    assert decoded(k.Secret(data={"a": b"\x00\xff", "empty": b""}, type="Opaque")) == {
        "data": {"a": "AP8=", "empty": ""},
        "type": "Opaque",
    }
    assert decoded(k.ConfigMap(data={"a": "1", "empty": ""})) == {"data": {"a": "1", "empty": ""}}


def test_a_zero_that_is_a_statement_stays_and_one_that_is_none_goes() -> None:
    assert decoded(k.DeleteOptions(gracePeriodSeconds=0, orphanDependents=False)) == {
        "gracePeriodSeconds": 0,
        "orphanDependents": False,
    }
    assert decoded(k.ServiceAccount(automountServiceAccountToken=False)) == {"automountServiceAccountToken": False}
    port = k.ServicePort(port=80, nodePort=0, name="", targetPort=k.IntOrString(intVal=8080))
    assert decoded(k.Service(spec=k.ServiceSpec(ports=[port])))["spec"] == {"ports": [{"port": 80, "targetPort": 8080}]}
    assert decoded(k.PriorityClass(value=0), "scheduling.k8s.io/v1") == {"value": 0}


def test_an_implicit_zero_written_out_is_left_out() -> None:
    # ObjectMeta.generation (7) and selfLink (4), which Go's encoder always writes.
    metadata = b"\x0a\x01a\x22\x00\x38\x00"
    raw = b"\x0a" + bytes([len(metadata)]) + metadata
    assert decode(envelope(raw))["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (k.IntOrString(type=0, intVal=0), 0),
        (k.IntOrString(type=0, intVal=-7, strVal="ignored"), -7),
        (k.IntOrString(type=1, strVal="web"), "web"),
        (k.IntOrString(type=1), ""),
    ],
    ids=["zero", "number", "name", "empty name"],
)
def test_an_int_or_string_is_what_its_type_says(value: k.IntOrString, expected: int | str) -> None:
    found = decoded(k.Service(spec=k.ServiceSpec(ports=[k.ServicePort(port=1, targetPort=value)])))
    assert found["spec"]["ports"][0]["targetPort"] == expected


@pytest.mark.parametrize(
    ("seconds", "nanos", "time", "micro_time"),
    [
        (0, 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000, 123_456_789, "2023-11-14T22:13:20Z", "2023-11-14T22:13:20.123456Z"),
        (-62_135_596_800, 0, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        (253_402_300_799, 999_999_999, "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"),
    ],
    ids=["epoch", "with a fraction", "first", "last"],
)
def test_times_are_rfc_3339(seconds: int, nanos: int, time: str, micro_time: str) -> None:
    metadata = k.ObjectMeta(deletionTimestamp=k.Time(seconds=seconds, nanos=nanos))
    assert decoded(k.ConfigMap(metadata=metadata))["metadata"] == {"deletionTimestamp": time}
    lease = k.Lease(spec=k.LeaseSpec(renewTime=k.MicroTime(seconds=seconds, nanos=nanos)))
    assert decoded(lease, "coordination.k8s.io/v1")["spec"] == {"renewTime": micro_time}


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800, 2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_refused(seconds: int) -> None:
    event = k.Event(firstTimestamp=k.Time(seconds=seconds))
    with pytest.raises(BadRequest, match=r'^Event in version "v1" cannot be handled as a Event: a time is outside'):
        decoded(event)


def test_the_events_of_both_groups_are_their_own_kinds() -> None:
    assert decoded(k.Event(message="core", count=2)) == {"message": "core", "count": 2}
    assert decoded(k.EventsEvent(note="new", deprecatedCount=2), "events.k8s.io/v1", "Event") == {
        "note": "new",
        "deprecatedCount": 2,
    }


def test_quantities_extras_and_embedded_documents_are_plain_json() -> None:
    quota = k.ResourceQuota(spec=k.ResourceQuotaSpec(hard={"cpu": k.Quantity(string="500m")}))
    assert decoded(quota)["spec"] == {"hard": {"cpu": "500m"}}
    spec = k.SubjectAccessReviewSpec(user="joe", extra={"scopes": k.ExtraValue(items=["a", "b"])})
    review = decoded(k.SubjectAccessReview(spec=spec), "authorization.k8s.io/v1")
    assert review["spec"] == {"user": "joe", "extra": {"scopes": ["a", "b"]}}
    entry = k.ManagedFieldsEntry(manager="me", fieldsV1=k.FieldsV1(Raw=b'{"f:data":{}}'))
    metadata = decoded(k.ConfigMap(metadata=k.ObjectMeta(managedFields=[entry])))["metadata"]
    assert metadata["managedFields"] == [{"manager": "me", "fieldsV1": {"f:data": {}}}]
    revision = k.ControllerRevision(data=k.RawExtension(raw=b'{"a":[1]}'), revision=0)
    assert decoded(revision, "apps/v1") == {"data": {"a": [1]}, "revision": 0}


def test_delete_options_are_known_in_every_group() -> None:
    options = k.DeleteOptions(propagationPolicy="Foreground", preconditions=k.Preconditions(uid="u"))
    for version in ("v1", "policy/v1", "kubevirt.io/v1"):
        assert decoded(options, version) == {"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}}
    eviction = k.Eviction(metadata=k.ObjectMeta(name="p"), deleteOptions=k.DeleteOptions(gracePeriodSeconds=0))
    assert decoded(eviction, "policy/v1") == {"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 0}}


def test_fields_of_a_newer_kubernetes_are_ignored() -> None:
    assert decode(envelope(b"\x0a\x03\x0a\x01a" + b"\xfa\x3f\x03new"))["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        ("kubevirt.io/v1", "VirtualMachine"),
        ("v1", "ObjectMeta"),
        ("v1", "Unknown"),
        ("v2", "Secret"),
    ],
)
def test_another_kind_is_an_unsupported_media_type_that_names_it(version: str, kind: str) -> None:
    with pytest.raises(UnsupportedMediaType) as refused:
        decode(envelope(b"", kind, version))
    assert refused.value.code == 415
    assert refused.value.message == (
        "the body of the request was in an unknown format - accepted media types include: application/json,"
        f" application/yaml ({version}, Kind={kind} is not read from application/vnd.kubernetes.protobuf)"
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty data (<empty>)"),
        (b"k8s\x00", "empty body (6b387300)"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (7b7d)"),
        (MAGIC + b"\xff", "proto: not a valid encoding (6b387300ff)"),
        (
            envelope(b"", kind=""),
            """Object 'Kind' is missing in 'runtime.TypeMeta{APIVersion:"v1", Kind:""}' (""",
        ),
        (
            envelope(b"", version=""),
            """Object 'apiVersion' is missing in 'runtime.TypeMeta{APIVersion:"", Kind:"ConfigMap"}' (""",
        ),
        (envelope(b"", contentEncoding="gzip"), 'content encoding "gzip" is not supported'),
    ],
    ids=["nothing", "only the magic", "JSON", "no envelope", "no kind", "no version", "compressed"],
)
def test_a_body_that_is_no_envelope_is_a_bad_request(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(body)
    assert refused.value.message.startswith("the object provided is unrecognized: ")
    assert words in refused.value.message


@pytest.mark.parametrize(
    "raw",
    [b"\x0a\x05\x0a", b"\x0f", b"\x0a\x03\x0a\x01\xff", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"],
    ids=["cut off", "bad wire type", "not UTF-8", "a length past the end"],
)
def test_an_object_that_is_none_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(envelope(raw))
    assert refused.value.message.startswith('ConfigMap in version "v1" cannot be handled as a ConfigMap: proto: ')


@pytest.mark.parametrize("document", [b"{", b"\xff", b"[" * 100_000], ids=["cut off", "not UTF-8", "deep"])
def test_an_embedded_document_that_is_no_json_is_a_bad_request(document: bytes) -> None:
    body = k.ControllerRevision(data=k.RawExtension(raw=document)).SerializeToString()
    with pytest.raises(BadRequest, match="an embedded document is not valid JSON"):
        decode(envelope(body, "ControllerRevision", "apps/v1"))


def test_a_small_body_cannot_stand_for_a_huge_object() -> None:
    body = envelope(b"\x12\x00" * (MOST_MESSAGES + 1), "RoleBinding", "rbac.authorization.k8s.io/v1")
    with pytest.raises(TooLarge):
        decode(body)


@given(st.binary(max_size=200), st.sampled_from(["ConfigMap", "Service", "Event", "Node", "DeleteOptions"]))
def test_any_bytes_are_json_or_refused(raw: bytes, kind: str) -> None:
    for body in (raw, MAGIC + raw, envelope(raw, kind)):
        try:
            found = decode(body)
        except ApiError as error:
            assert error.code in (400, 413, 415)  # noqa: PT017 - either outcome is right
        else:
            assert json.loads(json.dumps(found)) == found


def test_the_generated_module_is_loaded_with_the_first_such_body_only() -> None:
    program = """
import sys
from kvedge.standalone.apiserver.wire import protobuf_body
from kvedge.standalone.apiserver.requests import request_body
assert "kvedge.rpc.kubernetes_pb2" not in sys.modules
try:
    protobuf_body.decode(b"", {})
except protobuf_body.BadRequest:
    assert "kvedge.rpc.kubernetes_pb2" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)

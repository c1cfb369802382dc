# Tests: kvedge/standalone/apiserver/kinds/custom/crd_status.py, kvedge/standalone/apiserver/kinds/versions.py
# Tests: kvedge/standalone/apiserver/loops/expiry_loop.py, kvedge/standalone/apiserver/loops/work_loop.py
# Tests: kvedge/standalone/apiserver/requests/request_body.py, kvedge/standalone/apiserver/routes/pod_routes.py
# Tests: kvedge/standalone/apiserver/wire/api_errors.py, kvedge/standalone/apiserver/wire/media_types.py
"""Media types, bodies, versions of objects, expiry, status of CRDs, defaults, log requests: one small rule each."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN, apply_built_in_defaults
from kvedge.standalone.apiserver.kinds.custom import crd_status
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, kinds_of_crd
from kvedge.standalone.apiserver.kinds.versions import convert_to_served, convert_to_stored
from kvedge.standalone.apiserver.loops import expiry_loop
from kvedge.standalone.apiserver.loops.expiry_loop import find_expired_events
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.apiserver.requests.request_context import write_options
from kvedge.standalone.apiserver.routes.pod_routes import log_request
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest, NotAcceptable
from kvedge.standalone.apiserver.wire.document_decoder import decode
from kvedge.standalone.apiserver.wire.media_types import Form, WantedForm, choose_form, parse_media_type
from tests.unit.standalone.apiserver.stored_objects import stored

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.OBJECT),
        ("*/*", Form.OBJECT),
        ("application/json", Form.OBJECT),
        ("application/vnd.kubernetes.protobuf,application/json", Form.OBJECT),
        (f"{TABLE},application/json", Form.TABLE),
        (f"application/json;as=Table;v=v9;g=meta.k8s.io,{TABLE}", Form.TABLE),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Form.PARTIAL),
        (f"text/html, {TABLE}", Form.TABLE),
    ],
)
def test_the_first_form_that_can_be_made_is_made(accept: str, form: Form) -> None:
    assert choose_form(accept) == WantedForm(form)


def test_clients_of_old_name_an_older_version_of_a_table() -> None:
    assert choose_form(TABLE.replace("v=v1", "v=v1beta1")) == WantedForm(Form.TABLE, "v1beta1")


def test_a_form_that_nobody_makes_is_refused() -> None:
    with pytest.raises(NotAcceptable):
        choose_form("text/html")


def test_parameters_of_media_types_are_read() -> None:
    entry = parse_media_type('Application/JSON; As="Table" ;v=v1')
    assert (entry.name, entry.parameter("as"), entry.parameter("v"), entry.parameter("g")) == (
        "application/json",
        "Table",
        "v1",
        "",
    )


def test_yaml_becomes_what_json_would_be() -> None:
    text = b"a: 2020-01-01\nb: 0x10\nc: null\nd: [1, true]\n"
    assert decode(text, is_yaml=True).value == {"a": "2020-01-01", "b": 16, "c": None, "d": [1, True]}


@pytest.mark.parametrize(
    "text",
    [b"a: &x [1]\nb: *x", b"a: [", b"a: !!python/object:os.system x", b"? [1]\n: 2", b"a: \x80"],
    ids=["an alias", "no end", "a program", "a key that is a list", "no text"],
)
def test_yaml_that_is_more_than_json_is_refused(text: bytes) -> None:
    with pytest.raises(BadRequest):
        decode(text, is_yaml=True)


def test_an_event_has_other_names_in_its_other_group() -> None:
    events = next(kind for kind in BUILT_IN if (kind.group, kind.plural) == ("events.k8s.io", "events"))
    core = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {},
        "involvedObject": {"name": "x"},
        "message": "m",
        "count": 2,
    }
    served = convert_to_served(events, dict(core))
    assert served == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {},
        "regarding": {"name": "x"},
        "note": "m",
        "deprecatedCount": 2,
    }
    assert convert_to_stored(events, served) == core


def test_events_expire_an_hour_after_they_were_last_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def event(name: str, minutes: int, **times: Any) -> Any:
        return stored(
            name, 60 - minutes, metadata={"creationTimestamp": _ago(90)}, lastTimestamp=_ago(minutes), **times
        )

    def _ago(minutes: int) -> str:
        return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")

    fresh, old, odd = event("fresh", 5), event("old", 70), event("odd", 80, eventTime="whenever")
    series = event("series", 75, series={"lastObservedTime": _ago(1)})
    assert find_expired_events([fresh, old, odd, series], NOW) == [odd, old]
    monkeypatch.setattr(expiry_loop, "MOST", 2)
    many = [event(f"e{minutes}", minutes) for minutes in range(5)]
    assert [item.key.name for item in find_expired_events(many, NOW)] == ["e4", "e3", "e2"]


def crd(plural: str = "gadgets", kind: str = "Gadget", **names: Any) -> dict[str, Any]:
    """A CRD."""
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {"name": "v1beta1", "served": True, "storage": False},
                {"name": "v1", "served": True, "storage": True},
                {"name": "v2", "served": False, "storage": False},
            ],
        },
    }


def test_a_crd_is_established_when_its_names_are_free() -> None:
    first = crd()
    crd_status.set_crd_status(first, [], "t1")
    conditions = {item["type"]: (item["status"], item["lastTransitionTime"]) for item in first["status"]["conditions"]}
    assert conditions == {"NamesAccepted": ("True", "t1"), "Established": ("True", "t1")}
    assert first["status"]["storedVersions"] == ["v1"]
    again = dict(first["status"])
    crd_status.set_crd_status(first, kinds_of_crd(first), "t2")
    assert first["status"] == again


@pytest.mark.parametrize(
    "other",
    [
        crd("others", "Gadget"),
        crd("others", "Other", shortNames=["gadgets"]),
        crd("others", "Other", singular="gadget"),
    ],
    ids=["kind", "short name", "singular"],
)
def test_a_crd_whose_names_are_taken_is_not_served(other: dict[str, Any]) -> None:
    crd_status.set_crd_status(other, [], "t1")
    late = crd()
    crd_status.set_crd_status(late, kinds_of_crd(other), "t2")
    conditions = {item["type"]: item["status"] for item in late["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "False", "Established": "False"}


def test_versions_that_were_stored_once_are_remembered() -> None:
    first = crd()
    crd_status.set_crd_status(first, [], "t")
    for version in first["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    crd_status.set_crd_status(first, [], "t")
    assert first["status"]["storedVersions"] == ["v1", "v1beta1"]


def test_the_best_version_of_a_group_stands_first() -> None:
    document = crd()
    document["spec"]["versions"] = [
        {"name": name, "served": True, "storage": name == "v1"}
        for name in ("v1alpha1", "v10", "v1", "odd", "v2beta1", "v2")
    ]
    assert KindIndex(kinds_of_crd(document)).group_versions() == {
        "example.com": ["v10", "v2", "v1", "v2beta1", "v1alpha1", "odd"]
    }


def test_limits_of_a_container_are_its_requests() -> None:
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "a/b",
                    "resources": {"limits": {"cpu": "1", "memory": "2"}, "requests": {"cpu": "0.5"}},
                }
            ]
        },
    }
    apply_built_in_defaults("pods", pod)
    container = pod["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "0.5", "memory": "2"}
    assert container["imagePullPolicy"] == "Always"


@pytest.mark.parametrize("port", [{}, {"targetPort": ""}, {"targetPort": 0}, {"targetPort": None}])
def test_a_port_of_a_service_leads_to_the_same_port_unless_another_is_named(port: dict[str, Any]) -> None:
    service = {"spec": {"ports": [{"port": 80, **port}, {"port": 81, "targetPort": "http"}]}}
    apply_built_in_defaults("services", service)
    assert [item["targetPort"] for item in service["spec"]["ports"]] == [80, "http"]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("host:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_an_image_without_a_tag_is_always_pulled(image: str, policy: str) -> None:
    pod: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}}
    apply_built_in_defaults("pods", pod)
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


POD = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
}


def test_a_log_is_of_one_container() -> None:
    request = log_request(POD, {"container": "i", "follow": "true", "tailLines": "5", "sinceSeconds": "60"}, NOW)
    assert (request.container, request.follow, request.tail_lines) == ("i", True, 5)
    assert request.since == NOW - timedelta(minutes=1)
    with pytest.raises(BadRequest, match=r"a container name must be specified for pod p, choose one of: \[a b i\]"):
        log_request(POD, {}, NOW)
    with pytest.raises(BadRequest, match="container x is not valid for pod p"):
        log_request(POD, {"container": "x"}, NOW)


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": "-1"},
        {"limitBytes": "x"},
        {"sinceTime": "x"},
        {"sinceTime": "2020-01-01T00:00:00Z", "sinceSeconds": "1"},
    ],
)
def test_log_options_that_make_no_sense_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        log_request(POD, {"container": "a", **query}, NOW)


def test_the_manager_of_fields_is_named_by_the_writer_or_its_program() -> None:
    assert write_options({"fieldManager": "me"}, "kubectl/1.33", "CreateOptions").field_manager == "me"
    assert write_options({}, "kubectl/1.33 (linux)", "CreateOptions").field_manager == "kubectl"
    assert write_options({}, "", "CreateOptions").field_manager == "unknown"
    with pytest.raises(ApiError) as caught:
        write_options({"dryRun": "x", "fieldValidation": "x", "fieldManager": "m" * 200}, "", "CreateOptions")
    assert [cause["field"] for cause in caught.value.causes] == ["dryRun", "fieldValidation", "fieldManager"]


def test_a_loop_works_on_each_key_once_and_again_after_a_failure() -> None:
    async def run() -> list[str]:
        done: list[str] = []
        finished = asyncio.Event()

        async def work(key: str) -> None:
            done.append(key)
            if key == "bad" and done.count("bad") == 1:
                raise ApiError(503, "ServiceUnavailable", "not now")
            if key == "odd" and done.count("odd") == 1:
                raise ZeroDivisionError
            if done.count("bad") == 2 and done.count("odd") == 2:
                finished.set()

        loop: WorkLoop[str] = WorkLoop("test", work)
        for key in ("good", "bad", "good", "odd"):
            loop.add(key)
        loop.start()
        async with asyncio.timeout(5):
            await finished.wait()
        loop.stop()
        return done

    done = asyncio.run(run())
    assert done[:3] == ["good", "bad", "odd"]
    assert sorted(done[3:]) == ["bad", "odd"]

"""Bodies of subresource calls."""

from __future__ import annotations

import pytest

from kvedge.api.subresources.call_options import StartOptions, StopOptions, parse_document, parse_options
from kvedge.api.subresources.discovery_manifest import api_group, api_resource_list
from kvedge.api.subresources.status_message import Refusal, conflict, not_found_refusal


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_a_call_may_come_without_a_body(body: bytes) -> None:
    assert parse_options(StartOptions, body) == StartOptions()


@pytest.mark.parametrize("body", [b'{"paused": true, "dryRun": ["All"]}', b"paused: true\ndryRun: [All]\n"])
def test_a_body_is_json_or_yaml(body: bytes) -> None:
    options = parse_options(StartOptions, body)
    assert (options.paused, options.is_dry_run) == (True, True)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[1]",
        b"\xff\xfe\x00",
        b"text",
        b'{"gracePeriod": "soon"}',
        b"a: !!python/object:os.system {}",
        b"[" * 5000,
    ],
    ids=["cut", "list", "no text", "word", "wrong type", "a Python tag", "deeply nested"],
)
def test_a_body_without_sense_is_refused_in_kubevirts_words(body: bytes) -> None:
    with pytest.raises(Refusal, match=r"^Can not unmarshal Request body to struct, error: ") as refusal:
        parse_options(StopOptions, body)
    assert refusal.value.code == 400


def test_another_word_for_a_dry_run_is_refused() -> None:
    with pytest.raises(Refusal, match="allowed values"):
        parse_options(StartOptions, b'{"dryRun": ["Some"]}')


def test_aliases_are_refused_as_they_multiply() -> None:
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    with pytest.raises(Refusal, match="aliases are not supported"):
        parse_document(bomb)


@pytest.mark.parametrize("body", [b"a: " + b"x" * 70_000, b'"' + b"x" * 1_100_000 + b'"'], ids=["yaml", "json"])
def test_a_long_body_is_refused_unread(body: bytes) -> None:
    with pytest.raises(Refusal, match="longer than") as refusal:
        parse_document(body)
    assert refusal.value.code == 413


def test_refusals_are_kubernetes_statuses() -> None:
    assert conflict("virtualmachine.kubevirt.io", "web", "VM is not running").document() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Operation cannot be fulfilled on virtualmachine.kubevirt.io "web": VM is not running',
        "reason": "Conflict",
        "code": 409,
    }
    assert (
        not_found_refusal("virtualmachine.kubevirt.io", "web").message == 'virtualmachine.kubevirt.io "web" not found'
    )


def test_discovery_lists_what_kubevirt_lists() -> None:
    names = {item["name"] for item in api_resource_list("v1")["resources"]}
    assert {"expand-vm-spec", "virtualmachines/start", "virtualmachineinstances/console"} <= names
    assert not names & {"virtualmachines/addvolume", "virtualmachines/portforward", "virtualmachines/memorydump"}


def test_the_group_prefers_v1() -> None:
    assert api_group()["preferredVersion"]["groupVersion"] == "subresources.kubevirt.io/v1"

"""What the agent's calls answer and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.api.subresources.call_options import FreezeOptions, freeze_seconds, parse_options
from kvedge.api.subresources.guest_calls import explain_command_failure
from kvedge.api.subresources.guest_info_message import guest_agent_info, guest_filesystem_list, guest_user_list
from kvedge.api.subresources.guest_rules import check_guest
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.guest_verbs import RELAYED_VERBS
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with


def vmi(phase: str, *conditions: str) -> VirtualMachineInstance:
    found = [{"type": condition, "status": "True"} for condition in conditions]
    return vmi_with(status={"phase": phase, "nodeName": "n", "conditions": found}, namespace="")


DURATIONS = {
    "nothing said": (b"", 300),
    "an empty object": (b"{}", 300),
    "five minutes": (b'{"unfreezeTimeout": "5m0s"}', 300),
    "yaml": (b"unfreezeTimeout: 1h30m", 5400),
    "a part of a second": (b'{"unfreezeTimeout": "100ms"}', 1),
    "not by itself": (b'{"unfreezeTimeout": "0s"}', 0),
    "null": (b'{"unfreezeTimeout": null}', 300),
}


@pytest.mark.parametrize(("body", "seconds"), DURATIONS.values(), ids=DURATIONS)
def test_a_freeze_lasts_as_long_as_it_says(body: bytes, seconds: int) -> None:
    assert freeze_seconds(parse_options(FreezeOptions, body)) == seconds


WRONG = {
    "no duration": (b'{"unfreezeTimeout": "soon"}', 'unfreezeTimeout: time: invalid duration "soon"'),
    "no unit": (b'{"unfreezeTimeout": "5"}', 'unfreezeTimeout: time: invalid duration "5"'),
    "a number": (b'{"unfreezeTimeout": 5}', "Can not unmarshal Request body to struct"),
    "negative": (b'{"unfreezeTimeout": "-1s"}', "unfreezeTimeout: -1s is not between 0s and 168h"),
    "a month": (b'{"unfreezeTimeout": "720h"}', "unfreezeTimeout: 720h is not between 0s and 168h"),
    "a list": (b"[]", "Can not unmarshal Request body to struct"),
}


@pytest.mark.parametrize(("body", "text"), WRONG.values(), ids=WRONG)
def test_a_freeze_that_makes_no_sense_is_refused_with_400(body: bytes, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        freeze_seconds(parse_options(FreezeOptions, body))
    assert refused.value.code == 400
    assert text in refused.value.message


FREEZES = {
    "freeze, not running": ("freeze", vmi("Scheduled", "AgentConnected"), "VM is not running"),
    "unfreeze, not running": ("unfreeze", vmi("Failed"), "VMI is not running"),
}


@pytest.mark.parametrize(("verb", "found", "text"), FREEZES.values(), ids=FREEZES)
def test_freezing_needs_a_guest_that_runs(verb: str, found: VirtualMachineInstance, text: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_guest(found, RELAYED_VERBS[verb].checks)
    assert refused.value.code == 409
    assert refused.value.message.endswith(f": {text}")


def test_a_running_guest_with_agent_may_be_frozen_and_thawed() -> None:
    check_guest(vmi("Running", "AgentConnected"), RELAYED_VERBS["freeze"].checks)
    # The launcher knows it better than the status does, and has KubeVirt's words for it.
    check_guest(vmi("Running"), RELAYED_VERBS["freeze"].checks)
    # Also without its agent: the launcher then thaws it as soon as it is back.
    check_guest(vmi("Running"), RELAYED_VERBS["unfreeze"].checks)


@pytest.mark.parametrize("code", [400, 409, 500])
@pytest.mark.parametrize(("verb", "command"), [("freeze", "Freeze"), ("unfreeze", "Unfreeze")])
def test_what_a_launcher_refuses_is_an_internal_error_that_names_the_command(
    code: int, verb: str, command: str
) -> None:
    failed = explain_command_failure(verb, Refusal(code, "the QEMU guest agent is not connected"))
    assert (failed.code, failed.plain) == (500, False)
    # The expression of KubeVirt's own tests.
    expression = f"Internal error occurred:.*command {command} failed:.*QEMU guest agent is not connected"
    assert re.search(expression, failed.message)


@pytest.mark.parametrize("code", [404, 502, 503, 504])
def test_a_node_that_does_not_answer_is_no_refusal_of_the_launchers(code: int) -> None:
    refusal = Refusal(code, "the handler of node n does not answer")
    assert explain_command_failure("freeze", refusal) is refusal


def test_a_hostile_answer_of_a_guest_is_cut_to_what_is_known() -> None:
    answer = guest_agent_info(
        {
            "hostname": "h" * 10_000,
            "os": {"name": ["list"], "id": "debian", "evil": "x"},
            "timezone": 3,
            "extra": {},
            "userList": [{"userName": "u" * 1000, "loginTime": "x"}] * 1000,
            "fsInfo": {"disks": [{"diskName": 7, "usedBytes": -1, "disk": [{"serial": "s"}] * 100}, "x"]},
            "supportedCommands": "all",
        }
    )
    assert len(answer.pop("userList")) == 256
    assert answer == {
        "apiVersion": "subresources.kubevirt.io/v1",
        "kind": "VirtualMachineInstanceGuestAgentInfo",
        "metadata": {},
        "hostname": "h" * 256,
        "os": {"id": "debian"},
        "fsInfo": {
            "disks": [
                {
                    "diskName": "",
                    "mountPoint": "",
                    "fileSystemType": "",
                    "usedBytes": 0,
                    "totalBytes": 0,
                    "disk": [{"serial": "s"}] * 8,
                }
            ]
        },
    }


def test_lists_have_kubevirts_shape() -> None:
    users = guest_user_list({"items": [{"userName": "root", "domain": "", "loginTime": 1.5}, {"userName": "x"}]})
    assert users["kind"] == "VirtualMachineInstanceGuestOSUserList"
    assert users["items"] == [{"userName": "root", "loginTime": 1.5}, {"userName": "x"}]
    mount = {"diskName": "vda1", "mountPoint": "/", "fileSystemType": "ext4", "usedBytes": 1, "totalBytes": 2}
    mounts = guest_filesystem_list({"items": [{**mount, "disk": [{"serial": "", "busType": "virtio"}]}]})
    assert mounts["kind"] == "VirtualMachineInstanceFileSystemList"
    assert mounts["items"] == [{**mount, "disk": [{"busType": "virtio"}]}]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["items", "os", "userList", "fsInfo", "disks", "disk", "supportedCommands", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["items", "os", "userList", "fsInfo", "supportedCommands"]), anything))
def test_nothing_a_relay_says_breaks_the_answer(found: dict[str, Any]) -> None:
    for render in (guest_agent_info, guest_user_list, guest_filesystem_list):
        assert render(found)["metadata"] == {}

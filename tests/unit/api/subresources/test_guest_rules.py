"""When a call to a guest makes sense, and what of a guest's answer is shown."""

from __future__ import annotations

import pytest

from kvedge.api.subresources import guest_rules
from kvedge.api.subresources.status_message import Refusal
from kvedge.resources.guest_verbs import RELAYED_VERBS
from kvedge.resources.names import GRAPHICS
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi, vmi_with


def vmi(phase: str = "Running", *conditions: str, node: str = "node1", **spec: object) -> VirtualMachineInstance:
    found = [{"type": condition, "status": "True"} for condition in conditions]
    return vmi_with(small_vmi(**spec)["spec"], {"phase": phase, "nodeName": node, "conditions": found}, name="small")


def check(subject: VirtualMachineInstance, verb: str) -> None:
    """All that the table asks for that verb."""
    guest_rules.check_guest(subject, RELAYED_VERBS[verb].checks)


def refusal(check: object, *arguments: object) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        check(*arguments)  # type: ignore[operator]
    return refused.value.code, refused.value.message.removeprefix(
        'Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io "small": '
    )


FORBIDDEN = (
    'virtualmachineinstance.kubevirt.io "small" is forbidden: '
    "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported"
)
CHANGES = {
    "pause before it runs": (vmi("Scheduled"), "pause", (409, "VM is not running")),
    "pause twice": (vmi("Running", "Paused"), "pause", (409, "VMI is already paused")),
    "unpause before it runs": (vmi("Scheduled"), "unpause", (409, "VMI is not running")),
    "unpause what is not paused": (vmi(), "unpause", (409, "VMI is not paused")),
    "soft reboot before it runs": (vmi("Pending"), "softreboot", (409, "VM is not running")),
    "soft reboot of a paused guest": (vmi("Running", "Paused"), "softreboot", (409, "VMI is paused")),
    "soft reboot that nobody hears": (
        vmi(domain__features__acpi__enabled=False),
        "softreboot",
        (409, "VMI neither have the agent connected nor the ACPI feature enabled"),
    ),
    "pause with a probe that would then fail": (
        vmi(livenessProbe={"tcpSocket": {"port": 22}}),
        "pause",
        (403, FORBIDDEN),
    ),
    "pause with a program that would then fail": (
        vmi(livenessProbe={"exec": {"command": ["true"]}}),
        "pause",
        (403, FORBIDDEN),
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_that_makes_no_sense_is_refused(case: str) -> None:
    subject, verb, expected = CHANGES[case]
    assert refusal(check, subject, verb) == expected


def test_changes_that_make_sense_pass() -> None:
    check(vmi(), "pause")
    check(vmi(livenessProbe={"guestAgentPing": {}}), "pause")
    check(vmi("Running", "Paused"), "unpause")
    check(vmi(), "softreboot")
    guest_rules.check_guest(
        vmi("Running", "AgentConnected", domain__features__acpi__enabled=False), RELAYED_VERBS["softreboot"].checks
    )
    check(vmi("Scheduled"), "reset")


def test_a_console_that_may_yet_come_is_400_as_virtctl_then_tries_again() -> None:
    assert refusal(guest_rules.check_console, vmi("Scheduled")) == (400, "VMI is not running")


def test_a_console_that_will_not_come_is_something_else() -> None:
    assert refusal(guest_rules.check_console, vmi("Failed")) == (409, "VMI is in failed status")
    without = vmi(domain__devices__autoattachSerialConsole=False)
    assert refusal(guest_rules.check_console, without) == (400, "No serial consoles are present.")
    headless = vmi(domain__devices__autoattachGraphicsDevice=False)
    assert refusal(guest_rules.check_vnc, headless) == (400, "No graphics devices are present.")


def test_spice_is_there_for_a_guest_whose_template_asks_for_it_and_that_has_a_screen() -> None:
    code, message = refusal(check, vmi(), "spice")
    assert code == 400
    assert "set the annotation kvedge.io/graphics to spice on the VM's template" in message
    asks = vmi()
    asks.metadata.annotations[GRAPHICS] = "spice"
    check(asks, "spice")
    headless = vmi(domain__devices__autoattachGraphicsDevice=False)
    headless.metadata.annotations[GRAPHICS] = "spice"
    assert refusal(check, headless, "spice") == (400, "No graphics devices are present.")


def test_a_console_log_is_there_once_the_guest_was_and_after_it() -> None:
    for phase in ("Scheduled", "Running", "Succeeded", "Failed"):
        guest_rules.check_console_log(vmi(phase))
    assert refusal(guest_rules.check_console_log, vmi("Scheduling")) == (400, "VMI is not running")
    assert refusal(guest_rules.check_console_log, vmi("Failed", node="")) == (400, "VMI is not running")
    without = vmi(domain__devices__autoattachSerialConsole=False)
    assert refusal(guest_rules.check_console_log, without) == (400, "No serial consoles are present.")
    quiet = vmi(domain__devices__logSerialConsole=False)
    code, message = refusal(guest_rules.check_console_log, quiet)
    assert code == 400
    assert "logSerialConsole" in message


def test_a_port_of_a_paused_guest_is_not_forwarded() -> None:
    assert refusal(guest_rules.check_port_forward, vmi("Running", "Paused")) == (409, "VMI is paused")
    alone = vmi(domain__devices__interfaces=[])
    assert refusal(guest_rules.check_port_forward, alone) == (400, "no network interfaces are present")


def test_a_guest_without_the_device_says_so_in_kubevirts_words() -> None:
    assert refusal(guest_rules.check_usbredir, vmi("Pending")) == (409, "Not configured with USB Redirection")
    assert refusal(guest_rules.check_vsock, vmi("Pending")) == (400, "VSOCK is not attached.")
    guest_rules.check_usbredir(vmi(domain__devices__clientPassthrough={}))
    guest_rules.check_vsock(vmi(domain__devices__autoattachVSOCK=True))


def test_what_only_the_agent_knows_is_refused_as_plain_text_without_it() -> None:
    with pytest.raises(Refusal) as refused:
        guest_rules.check_agent(vmi())
    found = refused.value
    assert (found.code, found.message, found.plain) == (500, "VMI does not have guest agent connected", True)
    guest_rules.check_agent(vmi("Running", "AgentConnected"))


def test_a_vmi_without_node_is_not_asked_for() -> None:
    code, message = refusal(guest_rules.check_node, vmi("Pending", node=""))
    assert code == 400
    assert "because phase is Pending instead of Scheduled or Running" in message

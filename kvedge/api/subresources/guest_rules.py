"""Whether a call that goes to a guest makes sense in the VMI's present state; codes and words as KubeVirt's.

Called by subresource_server.py and guest_calls.py. Pure. Which verb needs which check stands in the table of guest
verbs, in resources/guest_verbs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kvedge.api.subresources.status_message import VM, VMI, Refusal, bad_request, conflict, forbidden_here
from kvedge.resources.guest_verbs import Check
from kvedge.resources.names import GRAPHICS, GRAPHICS_SPICE
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import has_agent, is_paused, wants_spice

_AGENT = "VMI does not have guest agent connected"


def check_guest(vmi: VirtualMachineInstance, checks: Sequence[Check]) -> None:
    """All checks of a verb, in its order; those of the owning VM are no part of it.

    Raises:
        Refusal: of the first that does not hold.
    """
    for check in checks:
        if check in CHECKS:
            CHECKS[check](vmi)


def check_owner(vm: VirtualMachine, checks: Sequence[Check]) -> None:
    """Those checks of a verb that ask the VM whose run it is. Raises Refusal."""
    for check in checks:
        if check in OWNER_CHECKS:
            OWNER_CHECKS[check](vm)


def check_no_snapshot(vm: VirtualMachine) -> None:
    """Whether its guest may run on: a snapshot that is being taken has paused it. Raises Refusal."""
    if vm.status.snapshot_in_progress:
        raise conflict(VM, vm.metadata.name, "VM snapshot is in progress")


def check_running(vmi: VirtualMachineInstance) -> None:
    """Whether its guest runs. Raises Refusal."""
    if vmi.status.phase != "Running":
        raise conflict(VMI, vmi.metadata.name, "VM is not running")


def check_vmi_running(vmi: VirtualMachineInstance) -> None:
    """As check_running, in the words that KubeVirt has for some verbs. Raises Refusal."""
    if vmi.status.phase != "Running":
        raise conflict(VMI, vmi.metadata.name, "VMI is not running")


def check_pausable(vmi: VirtualMachineInstance) -> None:
    """Whether it bears a pause, and is not paused already. Raises Refusal."""
    probe = vmi.spec.liveness_probe
    if probe is not None and probe.guest_agent_ping is None:
        text = "Pausing VMIs with a non-GuestAgentPing LivenessProbe is not supported"
        raise forbidden_here(VMI, vmi.metadata.name, text)
    if is_paused(vmi):
        raise conflict(VMI, vmi.metadata.name, "VMI is already paused")


def check_paused(vmi: VirtualMachineInstance) -> None:
    """Whether there is a pause to end. Raises Refusal."""
    if not is_paused(vmi):
        raise conflict(VMI, vmi.metadata.name, "VMI is not paused")


def check_rebootable(vmi: VirtualMachineInstance) -> None:
    """Whether the guest can hear that it should reboot. Raises Refusal."""
    name = vmi.metadata.name
    if is_paused(vmi):
        raise conflict(VMI, name, "VMI is paused")
    features = vmi.spec.domain.features
    acpi_off = features is not None and features.acpi.enabled is False
    if acpi_off and not has_agent(vmi):
        raise conflict(VMI, name, "VMI neither have the agent connected nor the ACPI feature enabled")


def check_agent(vmi: VirtualMachineInstance) -> None:
    """What only the guest's agent can tell.

    Raises:
        Refusal: 500 as plain text, as KubeVirt answers.
    """
    if vmi.status.phase != "Running":
        raise Refusal(500, "VMI is not running", plain=True)
    if not has_agent(vmi):
        raise Refusal(500, _AGENT, plain=True)


def check_console(vmi: VirtualMachineInstance) -> None:
    """Whether there is a serial console to look at.

    Raises:
        Refusal: 400 while it may yet come, as virtctl then tries again; 409 when it will not.
    """
    if vmi.spec.domain.devices.autoattach_serial_console is False:
        raise bad_request("No serial consoles are present.")
    if vmi.status.phase == "Failed":
        raise conflict(VMI, vmi.metadata.name, "VMI is in failed status")
    _check_running(vmi)


def check_console_log(vmi: VirtualMachineInstance) -> None:
    """Whether something is kept of the serial console, also of a guest that has ended. Raises Refusal."""
    devices = vmi.spec.domain.devices
    if devices.autoattach_serial_console is False:
        raise bad_request("No serial consoles are present.")
    if devices.log_serial_console is False:
        raise bad_request("The serial console is not logged: spec.domain.devices.logSerialConsole is false.")
    if not vmi.status.node_name or vmi.status.phase in ("", "Pending", "Scheduling"):
        raise bad_request("VMI is not running")


def check_vnc(vmi: VirtualMachineInstance) -> None:
    """Whether there is a display to look at. Raises Refusal."""
    if vmi.spec.domain.devices.autoattach_graphics_device is False:
        raise bad_request("No graphics devices are present.")
    _check_running(vmi)


def check_spice(vmi: VirtualMachineInstance) -> None:
    """Whether SPICE clients may look at its display. Raises Refusal."""
    check_vnc(vmi)
    if not wants_spice(vmi):
        remedy = f"set the annotation {GRAPHICS} to {GRAPHICS_SPICE} on the VM's template, and restart the VM"
        raise bad_request(f"The VMI has no SPICE: {remedy}; or use vnc.")


def check_port_forward(vmi: VirtualMachineInstance) -> None:
    """Whether the guest can be talked to; whether it has an address is seen later. Raises Refusal."""
    if is_paused(vmi):
        raise conflict(VMI, vmi.metadata.name, "VMI is paused")
    if not vmi.spec.domain.devices.interfaces:
        raise bad_request("no network interfaces are present")


def check_usbredir(vmi: VirtualMachineInstance) -> None:
    """Whether the guest has slots for USB devices of clients. Raises Refusal."""
    if vmi.spec.domain.devices.client_passthrough is None:
        raise conflict(VMI, vmi.metadata.name, "Not configured with USB Redirection")


def check_vsock(vmi: VirtualMachineInstance) -> None:
    """Whether the guest has a VSOCK device. Raises Refusal."""
    if not vmi.spec.domain.devices.autoattach_vsock:
        raise bad_request("VSOCK is not attached.")


def check_assigned(vmi: VirtualMachineInstance) -> None:
    """Whether a node has it, in the words that KubeVirt has for attestation. Raises Refusal."""
    if vmi.status.phase not in ("Scheduled", "Running"):
        raise conflict(VMI, vmi.metadata.name, "VMI is not assigned to a node yet")


def check_attestation(vmi: VirtualMachineInstance) -> None:
    """Whether its owner attests the host by AMD SEV. Raises Refusal."""
    security = vmi.spec.domain.launch_security
    if security is None or security.snp is not None or security.sev is None or security.sev.attestation is None:
        raise conflict(VMI, vmi.metadata.name, "Attestation not requested for VMI")


def check_session(vmi: VirtualMachineInstance) -> None:
    """Whether the guest waits for the session of its owner. Raises Refusal."""
    name, security = vmi.metadata.name, vmi.spec.domain.launch_security
    if vmi.status.phase != "Scheduled":
        raise conflict(VMI, name, "VMI is not in Scheduled phase")
    check_attestation(vmi)
    if security is not None and security.sev is not None and (security.sev.session or security.sev.dh_cert):
        raise conflict(VMI, name, "Session already defined")


def check_node(vmi: VirtualMachineInstance) -> None:
    """Whether a node has it. Raises Refusal."""
    if vmi.status.phase not in ("Scheduled", "Running") or not vmi.status.node_name:
        phase = vmi.status.phase or "Pending"
        detail = f"Unable to connect to VirtualMachineInstance because phase is {phase} instead of Scheduled or Running"
        raise bad_request(detail)


def _check_running(vmi: VirtualMachineInstance) -> None:
    if vmi.status.phase != "Running":
        raise bad_request("VMI is not running")


# Each word of the table of guest verbs, and what it asks.
CHECKS: Final[Mapping[Check, Callable[[VirtualMachineInstance], None]]] = {
    "agent": check_agent,
    "assigned": check_assigned,
    "attestation": check_attestation,
    "console": check_console,
    "console-log": check_console_log,
    "display": check_vnc,
    "node": check_node,
    "pausable": check_pausable,
    "paused": check_paused,
    "reachable": check_port_forward,
    "rebootable": check_rebootable,
    "running": check_running,
    "spice": check_spice,
    "usb-slots": check_usbredir,
    "vmi-running": check_vmi_running,
    "vsock": check_vsock,
}
OWNER_CHECKS: Final[Mapping[Check, Callable[[VirtualMachine], None]]] = {"no-snapshot": check_no_snapshot}

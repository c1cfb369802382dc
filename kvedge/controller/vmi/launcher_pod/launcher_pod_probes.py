"""Probes of a guest as probes of its launcher's container.

Called by launcher_pod_manifest. Pure. Web pages and ports are asked at the Pod's address, which is the guest's; what
only the guest's agent can tell is asked by a program in the container.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.types.probes import Probe
from kvedge.resources.types.vmi import VirtualMachineInstance

# The launcher needs some time before its guest begins to start.
_DELAY_SECONDS: Final = 10
# What the program in the container takes beside the agent.
_EXTRA_SECONDS: Final = 1
_DEFAULT_TIMEOUT: Final = 1


def pod_probe(vmi: VirtualMachineInstance, probe: Probe | None, program: Sequence[str]) -> JsonObject | None:
    """The container's probe for one of the VMI, or None for none; `program` starts kvedge inside the Pod."""
    if probe is None:
        return None
    made: JsonObject = {
        **encode(probe),
        "initialDelaySeconds": probe.initial_delay_seconds + _DELAY_SECONDS,
    }
    made.pop("guestAgentPing", None)
    if probe.asks_agent:
        seconds = probe.timeout_seconds or _DEFAULT_TIMEOUT
        made["exec"] = {"command": [*program, "launcher-probe", "--timeout-seconds", str(seconds), *_question(probe)]}
        made["timeoutSeconds"] = seconds + _EXTRA_SECONDS
    for kind in ("httpGet", "tcpSocket"):
        if kind in made:
            made[kind]["port"] = _number(made[kind]["port"], port_numbers(vmi))
    return made


def port_numbers(vmi: VirtualMachineInstance) -> dict[str, int]:
    """The ports that the VMI's interfaces name; the container names none."""
    interfaces = vmi.spec.domain.devices.interfaces
    return {port.name: port.port for interface in interfaces for port in interface.ports if port.name}


def _question(probe: Probe) -> list[str]:
    if probe.exec is None:
        return ["--guest-agent-ping"]
    command, *arguments = probe.exec.command or [""]
    return ["--command", command, "--", *arguments]


def _number(port: str | int, named: Mapping[str, int]) -> str | int:
    return port if isinstance(port, int) else named.get(port, port)

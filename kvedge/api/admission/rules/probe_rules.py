"""Rules for probes of the guest, worded as KubeVirt words them, and as Kubernetes those that it leaves to the Pod.

The Pod is made long after the VM was accepted: what no Pod can have is refused here. Called by admission_plan.py;
touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import (
    Cause,
    Field,
    invalid_value,
    required_cause,
    required_value_cause,
    unsupported_value_cause,
)
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.types.probes import HttpGetAction, Probe

_SCHEMES: Final = ("", "HTTP", "HTTPS")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")
_PORTS: Final = range(1, 1 << 16)
# A number of 32 bits after the launcher's own start has been added.
_LARGEST: Final = (1 << 31) - 1 - 10
# All words of a command together: it travels to the guest in one message.
_LONGEST_COMMAND: Final = 32 << 10


def probes_ask_one_question(subject: Subject) -> Iterator[Cause]:
    """Exactly one kind of probe, and a network for those that need it."""
    attached = any(network.pod is not None for network in subject.spec.networks)
    for at, probe in _probes(subject):
        asked = [probe.exec, probe.guest_agent_ping, probe.http_get, probe.tcp_socket]
        count = sum(item is not None for item in asked)
        if count > 1:
            yield Cause(at, f"{at} must have exactly one probe type set")
        if count == 0:
            kinds = f"{at.at('tcpSocket')}, {at.at('exec')} or {at.at('httpGet')}"
            yield required_cause(at, f"either {kinds} must be set if a {at} is specified")
        for name, found in (("httpGet", probe.http_get), ("tcpSocket", probe.tcp_socket)):
            if found is not None and not attached:
                yield Cause(at.at(name), f"{at.at(name)} is only allowed if the Pod Network is attached")


def liveness_suits_the_start(subject: Subject) -> Iterator[Cause]:
    """A guest that stands still answers nothing."""
    if subject.spec.start_strategy == "Paused" and subject.spec.liveness_probe is not None:
        start, liveness = subject.at.at("startStrategy"), subject.at.at("livenessProbe")
        text = f"either {start} or {liveness} should be provided.Pausing VMI with LivenessProbe is not supported"
        yield Cause(start, text)


def probes_are_those_of_a_pod(subject: Subject) -> Iterator[Cause]:
    """Numbers, ports, commands and headers."""
    for at, probe in _probes(subject):
        yield from _numbers(probe, at)
        if probe.exec is not None:
            yield from _command(probe.exec.command, at.at("exec", "command"))
        if probe.http_get is not None:
            yield from _port(subject, probe.http_get.port, at.at("httpGet", "port"))
            yield from _http(probe.http_get, at.at("httpGet"))
        if probe.tcp_socket is not None:
            yield from _port(subject, probe.tcp_socket.port, at.at("tcpSocket", "port"))
    liveness = subject.spec.liveness_probe
    if liveness is not None and liveness.success_threshold > 1:
        at = subject.at.at("livenessProbe", "successThreshold")
        yield invalid_value(at, liveness.success_threshold, "must be 1")


def _probes(subject: Subject) -> Iterator[tuple[Field, Probe]]:
    spec = subject.spec
    for name, probe in (("readinessProbe", spec.readiness_probe), ("livenessProbe", spec.liveness_probe)):
        if probe is not None:
            yield subject.at.at(name), probe


def _numbers(probe: Probe, at: Field) -> Iterator[Cause]:
    numbers = {
        "initialDelaySeconds": probe.initial_delay_seconds,
        "timeoutSeconds": probe.timeout_seconds,
        "periodSeconds": probe.period_seconds,
        "successThreshold": probe.success_threshold,
        "failureThreshold": probe.failure_threshold,
    }
    for name, number in numbers.items():
        if number < 0:
            yield invalid_value(at.at(name), number, "must be greater than or equal to 0")
        elif number > _LARGEST:
            yield invalid_value(at.at(name), number, f"must be less than or equal to {_LARGEST}")


def _command(command: list[str], at: Field) -> Iterator[Cause]:
    if not command or not command[0]:
        yield required_value_cause(at, "the program that the guest's agent runs must be named")
    elif sum(len(word.encode()) + 1 for word in command) > _LONGEST_COMMAND:
        yield Cause(at, f"{at}: Too long: may not be more than {_LONGEST_COMMAND} bytes")
    elif any("\0" in word for word in command):
        yield Cause(at, f"{at}: Invalid value: a word of a command holds no zero byte")


def _port(subject: Subject, port: str | int, at: Field) -> Iterator[Cause]:
    if isinstance(port, int):
        if port not in _PORTS:
            yield invalid_value(at, port, "must be between 1 and 65535, inclusive")
        return
    interfaces = subject.spec.domain.devices.interfaces
    named = {item.name for interface in interfaces for item in interface.ports if item.name}
    if port not in named:
        yield invalid_value(at, port, f"no interface names such a port in {subject.devices_at}.interfaces[].ports")


def _http(wanted: HttpGetAction, at: Field) -> Iterator[Cause]:
    if wanted.scheme not in _SCHEMES:
        yield unsupported_value_cause(at.at("scheme"), wanted.scheme, _SCHEMES[1:])
    for index, header in enumerate(wanted.http_headers):
        if not _HEADER.fullmatch(header.name):
            text = (
                "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used "
            )
            text += "for validation is '[-A-Za-z0-9]+')"
            yield invalid_value(at.at("httpHeaders").item(index).at("name"), header.name, text)


RULES: Final[tuple[Rule, ...]] = (
    probes_ask_one_question,
    liveness_suits_the_start,
    probes_are_those_of_a_pod,
)

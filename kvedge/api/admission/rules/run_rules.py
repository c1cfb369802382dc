"""Rules for how a VMI runs: strategies, names, DNS, labels and annotations, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from kvedge.api.admission.rules.causes import Cause, Field, required_cause, unsupported_cause
from kvedge.api.admission.rules.dns_names import dns_label_complaints, dns_subdomain_complaints
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import IGNITION_SUPPORT
from kvedge.resources.evacuation import EVICTION_STRATEGIES
from kvedge.resources.names import AUTOSTART_DELAY, AUTOSTART_ORDER, IGNITION, LONGEST_AUTOSTART_DELAY, RESERVED_LABELS
from kvedge.resources.node_loss.node_lease import ON_NODE_LOSS, ON_NODE_LOSS_VALUES
from kvedge.resources.values.ip_addresses import parse_ip

_DNS_POLICIES: Final = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_AUTOSTART_DIGITS: Final = 6
# So much of a wrong word is repeated.
_LONGEST_WORD: Final = 40
_MOST_NAMESERVERS: Final = 3
_MOST_SEARCHES: Final = 6
_LONGEST_SEARCHES: Final = 256


def strategies_exist(subject: Subject) -> Iterator[Cause]:
    """Eviction and start strategy."""
    spec = subject.spec
    if spec.eviction_strategy is not None and spec.eviction_strategy not in EVICTION_STRATEGIES:
        at = subject.at.at("evictionStrategy")
        yield unsupported_cause(at, f"{at} is set with an unrecognized option: {spec.eviction_strategy}")
    if spec.start_strategy is not None and spec.start_strategy != "Paused":
        at = subject.at.at("startStrategy")
        yield unsupported_cause(at, f"{at} is set with an unrecognized option: {spec.start_strategy}")
    grace = spec.termination_grace_period_seconds
    if grace is not None and grace < 0:
        at = subject.at.at("terminationGracePeriodSeconds")
        yield Cause(at, f"{at} '{grace}': must be greater than or equal to 0.")


def host_names_are_dns(subject: Subject) -> Iterator[Cause]:
    """The guest's host name and its domain."""
    at, spec = subject.at, subject.spec
    if spec.hostname and (complaints := dns_label_complaints(spec.hostname)):
        text = f"{at.at('hostname')} does not conform to the kubernetes DNS_LABEL rules : {', '.join(complaints)}"
        yield Cause(at.at("hostname"), text)
    if spec.subdomain and (complaints := dns_subdomain_complaints(spec.subdomain)):
        text = f"{at.at('subdomain')} does not conform to the kubernetes DNS_SUBDOMAIN rules : {', '.join(complaints)}"
        yield Cause(at.at("subdomain"), text)


def dns_is_possible(subject: Subject) -> Iterator[Cause]:
    """The Pod's DNS policy and configuration."""
    spec, at = subject.spec, subject.at
    config = spec.dns_config
    if spec.dns_policy and spec.dns_policy not in _DNS_POLICIES:
        valid = ", ".join(_DNS_POLICIES)
        yield unsupported_cause(
            at.at("dnsPolicy"), f"DNSPolicy: {spec.dns_policy} is not supported, valid values: {valid}"
        )
    if spec.dns_policy == "None":
        if config is None:
            yield required_cause(at.at("dnsConfig"), "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required_cause(at.at("dnsConfig", "nameservers"), text)
    if config is not None:
        yield from _dns_config(config, at.at("dnsConfig"))


def _dns_config(config: dict[str, Any], at: Field) -> Iterator[Cause]:
    servers = _texts(config.get("nameservers"))
    searches = _texts(config.get("searches"))
    if len(servers) > _MOST_NAMESERVERS:
        yield Cause(at.at("nameservers"), f"must not have more than {_MOST_NAMESERVERS} nameservers: {servers}")
    for index, server in enumerate(servers):
        if not _is_ip(server):
            here = at.at("nameservers").item(index)
            yield Cause(here, f"must be valid IP address: {server}")
    if len(searches) > _MOST_SEARCHES:
        yield Cause(at.at("searches"), f"must not have more than {_MOST_SEARCHES} search paths")
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        text = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        yield Cause(at.at("searches"), text)
    for index, search in enumerate(searches):
        # A name with a dot at its end is a domain, too.
        for complaint in dns_subdomain_complaints(search.removesuffix(".")) if search != "." else ():
            yield Cause(at.at("searches").item(index), complaint)
    options = config.get("options")
    for index, option in enumerate(options if isinstance(options, list) else ()):
        if not isinstance(option, dict) or not option.get("name"):
            yield required_cause(at.at("options").item(index).at("name"), "Option.Name must not be empty")


def labels_are_free_of_ours(subject: Subject) -> Iterator[Cause]:
    """No label that kvedge acts on."""
    reserved = sorted(RESERVED_LABELS & subject.metadata.labels.keys())
    if reserved and not subject.by_role:
        at = subject.metadata_at.at("labels")
        text = "creation of the following reserved kubevirt.io/ labels on a VMI object is prohibited"
        yield Cause(at.key(reserved[0]), f"{text}: {', '.join(reserved)}")


def annotations_ask_for_what_is_there(subject: Subject) -> Iterator[Cause]:
    """No annotation that asks for a feature which is not there."""
    if IGNITION in subject.metadata.annotations and not subject.cluster.configuration.gates.is_on(IGNITION_SUPPORT):
        at = subject.metadata_at.at("annotations").key(IGNITION)
        yield Cause(at, f"{IGNITION_SUPPORT} feature gate is not enabled in kubevirt-config, invalid entry {at}")


def ignition_has_a_config(subject: Subject) -> Iterator[Cause]:
    """JSON that says that it is Ignition's: KubeVirt starts guests without any other, and says nothing."""
    text = subject.metadata.annotations.get(IGNITION, "")
    if text and not _is_ignition(text):
        at = subject.metadata_at.at("annotations").key(IGNITION)
        yield Cause(
            at, f'{at} must be Ignition\'s JSON, such as {{"ignition": {{"version": "3.4.0"}}}}; butane makes it'
        )


def _is_ignition(text: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("ignition"), dict)


def autostart_is_in_numbers(subject: Subject) -> Iterator[Cause]:
    """Order and delay of the start after a boot, which the node agent of one box reads."""
    for name in (AUTOSTART_ORDER, AUTOSTART_DELAY):
        text = subject.metadata.annotations.get(name, "0")
        if not (text.isascii() and text.isdecimal() and len(text) <= _AUTOSTART_DIGITS):
            at = subject.metadata_at.at("annotations").key(name)
            yield Cause(at, f"{at}: {text!r} must be a whole number of at most {_AUTOSTART_DIGITS} digits, such as 10")
        elif name == AUTOSTART_DELAY and int(text) > LONGEST_AUTOSTART_DELAY and not subject.by_role:
            # A VM that entered before is started and stopped all the same; the agent waits no longer for it.
            at = subject.metadata_at.at("annotations").key(name)
            yield Cause(
                at, f"{at}: {text} must be at most {LONGEST_AUTOSTART_DELAY}, as other VMs wait so many seconds"
            )


def node_loss_is_answered(subject: Subject) -> Iterator[Cause]:
    """What is to happen when the node is lost: one of two words."""
    text = subject.metadata.annotations.get(ON_NODE_LOSS)
    if text is not None and text not in ON_NODE_LOSS_VALUES:
        at = subject.metadata_at.at("annotations").key(ON_NODE_LOSS)
        yield Cause(at, f"{at}: {text[:_LONGEST_WORD]!r} is not supported; use {' or '.join(ON_NODE_LOSS_VALUES)}")


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except ValueError:
        return False
    return True


RULES: Final[tuple[Rule, ...]] = (
    strategies_exist,
    host_names_are_dns,
    dns_is_possible,
    labels_are_free_of_ours,
    annotations_ask_for_what_is_there,
    ignition_has_a_config,
    autostart_is_in_numbers,
    node_loss_is_answered,
)

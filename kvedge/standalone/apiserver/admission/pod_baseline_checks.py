"""What Kubernetes' Pod Security Standard "Baseline" forbids: what gives a Pod the host, or a part of it.

Listed for `pod_security_rules`. Pure. Words and order are those of the API server, so that clients that match on its
refusals match on these. One difference: Kubernetes lets a Pod with a user namespace of its own have some of this; the
node agent of one box makes no such namespaces, so that these checks make no exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.pod_security_facts import (
    Check,
    Violation,
    containers_of,
    context_of,
    names_of,
    quote,
    setters,
    several,
    spec_of,
    spell,
)

_CAPABILITIES: Final = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
_SYSCTLS: Final = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
_SELINUX_TYPES: Final = frozenset(("", "container_engine_t", "container_init_t", "container_kvm_t", "container_t"))
_PROFILES: Final = frozenset(("RuntimeDefault", "Localhost"))
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"


def check_apparmor(pod: JsonObject) -> Violation | None:
    """Profiles that are none, by field or by annotation."""
    of_pod, bad, values = _profiles(pod, "appArmorProfile")
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    forbidden = sorted(
        f"{key}={spell(value)}"
        for key, value in annotations.items()
        if key.startswith(_APPARMOR_ANNOTATION) and not _is_apparmor_profile(value)
    )
    who = [setters(of_pod, bad)] if of_pod or bad else []
    if forbidden:
        who.append("annotation" if len(forbidden) == 1 else "annotations")
    if not who:
        return None
    found = [*sorted(values), *forbidden]
    reason = "forbidden AppArmor profile" if len(found) == 1 else "forbidden AppArmor profiles"
    return Violation(reason, f"{' and '.join(who)} must not set AppArmor profile type to {quote(found)}")


def apparmor_annotations(pod: JsonObject) -> dict[str, Any]:
    """What a Pod says of AppArmor in its annotations, which may change while it runs."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return {key: value for key, value in annotations.items() if key.startswith(_APPARMOR_ANNOTATION)}


def check_capabilities(pod: JsonObject) -> Violation | None:
    """Capabilities beyond what containers have by default."""
    return forbidden_capabilities(pod, _CAPABILITIES, "non-default capabilities")


def forbidden_capabilities(pod: JsonObject, allowed: frozenset[str], reason: str) -> Violation | None:
    """Containers that add capabilities which are not allowed."""
    wanted = {id(item): set(_find_added_capabilities(item)) - allowed for item in containers_of(pod)}
    bad = [item for item in containers_of(pod) if wanted[id(item)]]
    if not bad:
        return None
    names = sorted(set().union(*wanted.values()))
    text = f"{several('container', names_of(bad))} must not include {quote(names)} in securityContext.capabilities.add"
    return Violation(reason, text)


def check_host_namespaces(pod: JsonObject) -> Violation | None:
    """The host's network, processes or IPC."""
    spec = spec_of(pod)
    found = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def check_host_paths(pod: JsonObject) -> Violation | None:
    """The host's files."""
    bad = [volume for volume in spec_of(pod).get("volumes") or [] if volume.get("hostPath") is not None]
    return Violation("hostPath volumes", several("volume", names_of(bad))) if bad else None


def check_host_ports(pod: JsonObject) -> Violation | None:
    """Ports of the host."""
    bad = [item for item in containers_of(pod) if any(port.get("hostPort") for port in item.get("ports") or [])]
    if not bad:
        return None
    ports = {str(port["hostPort"]) for item in bad for port in item["ports"] if port.get("hostPort")}
    verb, word = "uses" if len(bad) == 1 else "use", "hostPort" if len(ports) == 1 else "hostPorts"
    return Violation("hostPort", f"{several('container', names_of(bad))} {verb} {word} {', '.join(sorted(ports))}")


def check_asked_hosts(pod: JsonObject) -> Violation | None:
    """Probes and hooks that have the node ask somebody else than the Pod."""
    found = {
        name: hosts
        for item in containers_of(pod)
        for name in names_of([item])
        if (hosts := set(_find_probed_hosts(item)))
    }
    if not found:
        return None
    asked = sorted(set().union(*found.values()))
    verb = "uses" if len(found) == 1 else "use"
    word = "probe or lifecycle host" if len(asked) == 1 else "probe or lifecycle hosts"
    text = f"{several('container', sorted(found))} {verb} {word} {quote(asked)}"
    return Violation("probe or lifecycle host", text)


def check_privileged(pod: JsonObject) -> Violation | None:
    """Containers that are root on the host."""
    bad = [item for item in containers_of(pod) if context_of(item).get("privileged")]
    if not bad:
        return None
    return Violation(
        "privileged", f"{several('container', names_of(bad))} must not set securityContext.privileged=true"
    )


def check_proc_mount(pod: JsonObject) -> Violation | None:
    """A /proc without what keeps containers from the host's parts of it."""
    bad = [item for item in containers_of(pod) if context_of(item).get("procMount") not in (None, "Default")]
    if not bad:
        return None
    values = sorted({str(context_of(item)["procMount"]) for item in bad})
    text = f"{several('container', names_of(bad))} must not set securityContext.procMount to {quote(values)}"
    return Violation("procMount", text)


def check_selinux(pod: JsonObject) -> Violation | None:
    """Labels that are not those of containers."""
    of_pod = (context_of(spec_of(pod)).get("seLinuxOptions")) or {}
    options = {id(item): context_of(item).get("seLinuxOptions") or {} for item in containers_of(pod)}
    bad = [item for item in containers_of(pod) if _is_forbidden_label(options[id(item)])]
    if not bad and not _is_forbidden_label(of_pod):
        return None
    labels = [*([of_pod] if _is_forbidden_label(of_pod) else []), *(options[id(item)] for item in bad)]
    types = sorted({label.get("type") or "" for label in labels} - _SELINUX_TYPES)
    told = [several("type", types)] if types else []
    told += [f"{field} may not be set" for field in ("user", "role") if any(label.get(field) for label in labels)]
    who = setters(_is_forbidden_label(of_pod), names_of(bad))
    return Violation("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(told)}")


def check_seccomp(pod: JsonObject) -> Violation | None:
    """All system calls, asked for in so many words."""
    of_pod, bad, values = _profiles(pod, "seccompProfile")
    if not of_pod and not bad:
        return None
    what = f"must not set securityContext.seccompProfile.type to {quote(sorted(values))}"
    return Violation("seccompProfile", f"{setters(of_pod, bad)} {what}")


def check_sysctls(pod: JsonObject) -> Violation | None:
    """Kernel settings that reach beyond the Pod."""
    names = [str(item.get("name") or "") for item in context_of(spec_of(pod)).get("sysctls") or []]
    bad = [name for name in names if name not in _SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def check_windows(pod: JsonObject) -> Violation | None:
    """Windows' privileged containers."""
    of_pod = _is_host_process(context_of(spec_of(pod)))
    bad = [item for item in containers_of(pod) if _is_host_process(context_of(item))]
    if not of_pod and not bad:
        return None
    text = f"{setters(of_pod, names_of(bad))} must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", text)


# In the order of their names in Kubernetes, which is that of a refusal that names several.
BASELINE: Final[tuple[Check, ...]] = (
    check_apparmor,
    check_capabilities,
    check_host_namespaces,
    check_host_paths,
    check_host_ports,
    check_asked_hosts,
    check_privileged,
    check_proc_mount,
    check_selinux,
    check_seccomp,
    check_sysctls,
    check_windows,
)


def _profiles(pod: JsonObject, field: str) -> tuple[bool, list[str], set[str]]:
    """Whether the Pod sets a forbidden profile, which containers do, and to what."""
    kinds = {id(holder): (context_of(holder).get(field) or {}).get("type") for holder in containers_of(pod)}
    bad = [item for item in containers_of(pod) if _is_forbidden_profile(context_of(item), field)]
    of_pod = _is_forbidden_profile(context_of(spec_of(pod)), field)
    values = {str(kinds[id(item)] or "") for item in bad}
    if of_pod:
        values.add(str(context_of(spec_of(pod))[field].get("type") or ""))
    return of_pod, names_of(bad), values


def _is_forbidden_profile(context: JsonObject, field: str) -> bool:
    profile = context.get(field)
    return profile is not None and profile.get("type") not in _PROFILES


def _is_apparmor_profile(value: Any) -> bool:
    return not value or value == "runtime/default" or str(value).startswith("localhost/")


def _is_forbidden_label(label: JsonObject) -> bool:
    return (label.get("type") or "") not in _SELINUX_TYPES or bool(label.get("user")) or bool(label.get("role"))


def _is_host_process(context: JsonObject) -> bool:
    return bool((context.get("windowsOptions") or {}).get("hostProcess"))


def _find_added_capabilities(container: JsonObject) -> Iterable[str]:
    return (context_of(container).get("capabilities") or {}).get("add") or []


def _find_probed_hosts(container: JsonObject) -> Iterator[str]:
    lifecycle = container.get("lifecycle") or {}
    probes = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
    for handler in (*probes, lifecycle.get("postStart"), lifecycle.get("preStop")):
        for way in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(way) or {}).get("host")
            if host:
                yield str(host)

"""What of a Pod this agent does not do, said before anything of it runs. Pure.

Called by the Pod plan. A Pod that asks for one of these ends as Failed with a reason, instead of running without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from kvedge.resources.types.core import Container, Pod

# Kubernetes' safe set, and those that only act within a network or IPC namespace.
_SYSCTL_PREFIXES: Final = ("net.ipv4.", "net.ipv6.", "net.core.somaxconn", "kernel.shm", "kernel.msg", "kernel.sem")


class Rejection(Struct, frozen=True):
    """Why a Pod is not run: a reason in one word, and a message for the user."""

    reason: str
    message: str


def rejection(pod: Pod) -> Rejection | None:
    """The first thing in a Pod's spec that cannot be done here, or None."""
    return next(_rejections(pod), None)


def _rejections(pod: Pod) -> Iterator[Rejection]:
    if pod.spec.restart_policy not in ("Never", ""):
        yield _refuse(f"spec.restartPolicy: {pod.spec.restart_policy} is not supported on one box; use Never")
    if not pod.spec.containers:
        yield _refuse("spec.containers: a Pod needs at least one container")
    if pod.spec.resource_claims:
        yield _refuse("spec.resourceClaims: nothing allocates devices to claims on one box; name a resource in limits")
    context = pod.spec.security_context
    for sysctl in context.sysctls if context else []:
        if not sysctl.name.startswith(_SYSCTL_PREFIXES) or ".." in sysctl.name or "/" in sysctl.name:
            yield Rejection("SysctlForbidden", f'forbidden sysctl: "{sysctl.name}" not allowlisted')
        elif pod.spec.host_network:
            yield Rejection("SysctlForbidden", f'forbidden sysctl: "{sysctl.name}" not allowed with host net enabled')
    for container in pod.spec.init_containers:
        if container.restart_policy:
            yield _refuse(
                f"spec.initContainers[{container.name}].restartPolicy: restartable init containers are not supported"
            )
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        yield from _container_rejections(container)


def _container_rejections(container: Container) -> Iterator[Rejection]:
    context = container.security_context
    if context is not None and context.privileged:
        yield _refuse(f"container {container.name}: privileged containers are not supported on one box")
    if context is not None and context.seccomp_profile is not None and context.seccomp_profile.type == "Localhost":
        yield _refuse(f"container {container.name}: seccomp profiles of the host are not supported on one box")
    for name, probe in (("liveness", container.liveness_probe), ("readiness", container.readiness_probe)):
        if probe is not None and not ({"exec", "httpGet", "tcpSocket"} & probe.keys()):
            text = f"container {container.name}: only exec, httpGet and tcpSocket {name} probes are supported"
            yield _refuse(text)


def _refuse(message: str) -> Rejection:
    return Rejection("UnsupportedPodSpec", message)

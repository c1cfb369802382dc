"""How the Pods are confined that the controller makes: an unprivileged user, no capability, no way to more.

Called by the manifests of launchers, of the containers of their images, of attachment Pods and of workers. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.resources.types.core import Capabilities, PodSecurityContext, SeccompProfile, SecurityContext, Sysctl


def make_pod_context(sysctls: Sequence[Sysctl] = ()) -> PodSecurityContext:
    """The user of guests, to whose group the Pod's volumes are given."""
    return PodSecurityContext(
        run_as_user=LAUNCHER_UID,
        run_as_group=LAUNCHER_GID,
        run_as_non_root=True,
        fs_group=LAUNCHER_GID,
        sysctls=list(sysctls),
        seccomp_profile=SeccompProfile(type="RuntimeDefault"),
    )


def make_container_context(
    *, read_only_root: bool | None = None, capabilities: Sequence[str] = (), makes_namespaces: bool = False
) -> SecurityContext:
    """The same user, without a way to any other right; as no root has any use of capabilities that are named.

    A runtime's filter of system calls goes by them. It keeps a container from namespaces of its own; `makes_namespaces`
    is for one whose program shuts itself into some.
    """
    return SecurityContext(
        run_as_user=LAUNCHER_UID,
        run_as_group=LAUNCHER_GID,
        run_as_non_root=True,
        privileged=False,
        allow_privilege_escalation=False,
        read_only_root_filesystem=read_only_root,
        capabilities=Capabilities(add=list(capabilities), drop=["ALL"]),
        seccomp_profile=SeccompProfile(type="Unconfined") if makes_namespaces else None,
    )

"""Names by which hook sidecars are asked for and found: an annotation, a gate, a directory, containers, protocols.

Used wherever `hook_sidecars` is, and by the launcher, which stays beside the guest: nothing is imported. Pure. They are
KubeVirt's.
"""

from __future__ import annotations

HOOK_SIDECARS = "hooks.kubevirt.io/hookSidecars"
# With this gate VMIs may have them.
SIDECAR_GATE = "Sidecar"
# Where each sidecar puts its socket. The launcher has there one directory for each of them, by the container's name.
HOOK_SOCKETS_DIRECTORY = "/var/run/kubevirt-hooks"
SIDECAR_PREFIX = "hook-sidecar-"
# The protocols that sidecars may speak, the latest first.
HOOK_VERSIONS = ("v1alpha3", "v1alpha2", "v1alpha1")


def sidecar_name(number: int) -> str:
    """The name of a sidecar's container."""
    return f"{SIDECAR_PREFIX}{number}"

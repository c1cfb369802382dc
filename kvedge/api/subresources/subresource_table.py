"""The aggregated API's calls: ONE table of what there is, what discovery lists, and what later releases bring.

Read by discovery_manifest.py and subresource_server.py. Pure data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

VM_PLURAL: Final = "virtualmachines"
VMI_PLURAL: Final = "virtualmachineinstances"


@dataclass(frozen=True, slots=True)
class Subresource:
    """One call; `path` may have parameters in braces, which RBAC does not see.

    `later` are those that KubeVirt has and kvedge answers with 501. KubeVirt leaves some of those that it serves out of
    discovery (`listed`).
    """

    resource: str
    name: str
    method: str
    listed: bool = True
    later: bool = False
    path: str = ""

    @property
    def asked(self) -> str:
        """What RBAC knows it by: `virtualmachines/start`."""
        return f"{self.resource}/{self.name}"

    @property
    def route(self) -> str:
        """The path below the object."""
        return self.path or self.name


def _vm(name: str, method: str = "PUT", *, listed: bool = True, later: bool = False) -> Subresource:
    return Subresource(VM_PLURAL, name, method, listed, later)


def _vmi(name: str, method: str = "PUT", *, listed: bool = True, later: bool = False) -> Subresource:
    return Subresource(VMI_PLURAL, name, method, listed, later)


def _port_forward(resource: str, path: str, *, listed: bool) -> Subresource:
    return Subresource(resource, "portforward", "GET", listed=listed, path=path)


SUBRESOURCES: Final[Sequence[Subresource]] = (
    _vm("start"),
    _vm("stop"),
    _vm("restart"),
    _vm("expand-spec", "GET"),
    _port_forward(VM_PLURAL, "portforward/{port}", listed=False),
    _port_forward(VM_PLURAL, "portforward/{port}/{protocol}", listed=False),
    _vm("migrate", later=True),
    _vm("addvolume", listed=False, later=True),
    _vm("removevolume", listed=False, later=True),
    _vm("memorydump", listed=False, later=True),
    _vm("removememorydump", listed=False, later=True),
    _vm("evacuate/cancel", later=True),
    _vm("objectgraph", "GET", later=True),
    _vmi("pause"),
    _vmi("unpause"),
    _vmi("reset"),
    _vmi("softreboot"),
    _vmi("console", "GET"),
    # Ours: KubeVirt shows it as a container's log.
    _vmi("console/log", "GET"),
    _vmi("vnc", "GET"),
    _port_forward(VMI_PLURAL, "portforward/{port}", listed=True),
    _port_forward(VMI_PLURAL, "portforward/{port}/{protocol}", listed=True),
    _vmi("guestosinfo", "GET"),
    _vmi("userlist", "GET"),
    _vmi("filesystemlist", "GET"),
    _vmi("vnc/screenshot", "GET"),
    _vmi("freeze"),
    _vmi("unfreeze"),
    _vmi("addvolume", later=True),
    _vmi("removevolume", later=True),
    _vmi("backup", later=True),
    _vmi("redefine-checkpoint", later=True),
    _vmi("evacuate/cancel", later=True),
    _vmi("objectgraph", "GET", later=True),
    _vmi("usbredir", "GET", listed=False, later=True),
    _vmi("vsock", "GET", listed=False, later=True),
    _vmi("sev/fetchcertchain", "GET", later=True),
    _vmi("sev/querylaunchmeasurement", "GET", later=True),
    _vmi("sev/setupsession", later=True),
    _vmi("sev/injectlaunchsecret", later=True),
)

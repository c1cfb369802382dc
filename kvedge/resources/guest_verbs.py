"""ONE table of the calls that users have to a guest; everything that must agree on them is derived from it.

Read by the api role (discovery, routes, checks), by the node's relay and the door to launchers in the handler, and by
the manifests of users' roles. Pure data.

**How a guest verb is added.** One row in `GUEST_VERBS` and one implementation. The row says which users have the right,
the HTTP method and path, the checks of the VMI's state, and the launcher's gRPC method. From it follow the users'
ClusterRoles (run packaging/rbac), discovery, the api's route with its checks, the relay's path on each node, and the
call of the launcher. The implementation is the method of that name in `launcher.proto` and in `LauncherServer`. That is
all for a verb of the way `change` or `command`. `facts` also needs the answer's shape, in `guest_info_message.py` for
users and in `guest_answer_message.py` for the relay; a state that no check knows needs a check in `guest_rules.py`.
tests/unit/resources/test_guest_verbs.py walks the table and names what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from kvedge.resources.configuration.feature_gates import SEV_GATE
from kvedge.resources.names import SERIAL_SOCKET, SPICE_SOCKET, USB_SLOTS, USB_SOCKET, VNC_SOCKET
from kvedge.resources.relay_protocol import MOVE_CURSOR, PRESERVE_SESSION

VM_PLURAL: Final = "virtualmachines"
VMI_PLURAL: Final = "virtualmachineinstances"
# RBAC's verb for each HTTP method.
RBAC_VERBS: Final[Mapping[str, str]] = {
    "GET": "get",
    "PUT": "update",
    "POST": "create",
    "DELETE": "delete",
    "PATCH": "patch",
}

# The least of the users' roles that has the right: `view`, `edit` and `admin` include each other, `migrate` stands
# alone. `nobody` is KubeVirt's choice: an administrator gives that right by hand.
Role = Literal["view", "edit", "admin", "migrate", "nobody"]

# How a call is answered. The api role, the relay and the door to launchers each have one implementation of each way
# that is theirs.
#   power     the api role changes the VM
#   volume    the api role changes the volumes of a VM or VMI
#   evacuation  the api role takes the mark of an eviction from the VMI
#   migration  the api role makes a migration of the VMI
#   memory    the api role writes into the VM that a dump is wanted, or its claim is to be let go
#   session   the api role writes into the VMI with which keys its guest starts
#   document  the api role answers with an object
#   graph     the api role answers with what belongs to the VM or VMI
#   change    the launcher does it
#   command   as change; a refusal of the launcher is told as KubeVirt tells those of its commands
#   facts     the launcher's answer, as a document
#   node      the handler's own answer, as a document
#   usage     what the guest has used over time, as the handler has kept it
#   capture   frames of one of the guest's NICs
#   picture   the guest's screen
#   log       what is kept of the serial console
#   stream    a websocket to a socket of the launcher
#   vsock     a websocket to a port of the guest's vsock
#   forward   a websocket to a port of the guest
#   later     KubeVirt has it, kvedge answers 501
Way = Literal[
    "power",
    "volume",
    "evacuation",
    "migration",
    "memory",
    "session",
    "document",
    "graph",
    "change",
    "command",
    "facts",
    "node",
    "usage",
    "capture",
    "picture",
    "log",
    "stream",
    "vsock",
    "forward",
    "later",
]
RELAYED_WAYS: Final[frozenset[Way]] = frozenset(
    {"change", "command", "facts", "node", "usage", "capture", "picture", "log", "stream", "vsock"}
)

# The conditions of a call, checked in the api role's guest_rules.py. Their words differ where KubeVirt's do.
Check = Literal[
    "agent",
    "assigned",
    "attestation",
    "console",
    "console-log",
    "display",
    "no-snapshot",
    "node",
    "pausable",
    "paused",
    "reachable",
    "rebootable",
    "running",
    "spice",
    "usb-slots",
    "vmi-running",
    "vsock",
]


class GuestVerb(Struct, frozen=True):
    """One call that users have.

    `path` may have parameters in braces, which RBAC does not see. KubeVirt leaves some of those that it serves out of
    discovery (`listed`). `rpc` is the launcher's gRPC method and `seconds` how long the relay waits for it; `socket` is
    the launcher's end of a stream, or with `slots` how the names of so many ends begin, and `viewers` how many
    connections it takes: of one alone the last to come takes the place of the one before. `flags` are parameters of the
    query that the relay is told when they are "true"; `failure_event` is the reason of the VMI's Event when the
    launcher refuses. With a `gate` it is served while that feature gate of KubeVirt is on.
    """

    resource: str
    name: str
    method: str
    way: Way
    role: Role
    checks: tuple[Check, ...] = ()
    rpc: str = ""
    socket: str = ""
    slots: int = 0
    viewers: int = 1
    flags: tuple[str, ...] = ()
    seconds: float = 15.0
    failure_event: str = ""
    listed: bool = True
    path: str = ""
    gate: str = ""

    @property
    def asked(self) -> str:
        """What RBAC knows it by: `virtualmachines/start`."""
        return f"{self.resource}/{self.name}"

    @property
    def route(self) -> str:
        """The path below the object."""
        return self.path or self.name

    @property
    def rbac_verb(self) -> str:
        """The verb of the right."""
        return RBAC_VERBS[self.method]

    def at_slot(self, number: int) -> GuestVerb:
        """The stream to one of its ends."""
        return replace(self, socket=f"{self.socket}{number}", slots=0)

    @property
    def is_relayed(self) -> bool:
        """Whether the guest's node does it."""
        return self.way in RELAYED_WAYS


_vmi = partial(GuestVerb, VMI_PLURAL)


def _power(name: str) -> GuestVerb:
    return GuestVerb(VM_PLURAL, name, "PUT", "power", "edit")


def _volume(resource: str, name: str, *, listed: bool = True) -> GuestVerb:
    return GuestVerb(resource, name, "PUT", "volume", "edit", listed=listed)


def _change(name: str, rpc: str, *checks: Check) -> GuestVerb:
    return _vmi(name, "PUT", "change", "edit", (*checks, "node"), rpc)


def _command(name: str, rpc: str, check: Check, failure_event: str = "") -> GuestVerb:
    # A guest first writes out what it has in memory; the launcher gives up before these seconds are over.
    return _vmi(name, "PUT", "command", "edit", (check, "node"), rpc, seconds=55.0, failure_event=failure_event)


def _facts(name: str, rpc: str) -> GuestVerb:
    return _vmi(name, "GET", "facts", "view", ("agent", "node"), rpc)


def _forward(resource: str, path: str, *, listed: bool) -> GuestVerb:
    return GuestVerb(
        resource, "portforward", "GET", "forward", "edit", ("reachable",), listed=listed, path=f"portforward/{path}"
    )


def _make_later(resource: str, name: str, role: Role = "edit") -> GuestVerb:
    return GuestVerb(resource, name, "PUT", "later", role)


def _sev(name: str, method: str, way: Way, role: Role, checks: tuple[Check, ...] = (), rpc: str = "") -> GuestVerb:
    return _vmi(f"sev/{name}", method, way, role, checks, rpc, gate=SEV_GATE)


_MEASURED: Final[tuple[Check, ...]] = ("vmi-running", "attestation", "paused", "node")
_DISPLAY: Final[tuple[Check, ...]] = ("display", "node")
# A SPICE client has a connection of its own for each channel, eight of them with sound and two USB ports. While one
# client takes the screen over from another, both may be there.
_SPICE_CONNECTIONS: Final = 16
# Of one guest at a time.
_VSOCK_CONNECTIONS: Final = 32
# Ours: the steps of the guest's start.
TRACE: Final = "trace"
# KubeVirt's, by which snapshot tools learn that their snapshot is not of frozen file systems.
_FREEZE_ERROR: Final = "FreezeError"

GUEST_VERBS: Final[Sequence[GuestVerb]] = (
    _power("start"),
    _power("stop"),
    _power("restart"),
    GuestVerb(VM_PLURAL, "expand-spec", "GET", "document", "view"),
    _forward(VM_PLURAL, "{port}", listed=False),
    _forward(VM_PLURAL, "{port}/{protocol}", listed=False),
    GuestVerb(VM_PLURAL, "migrate", "PUT", "migration", "migrate"),
    _volume(VM_PLURAL, "addvolume", listed=False),
    _volume(VM_PLURAL, "removevolume", listed=False),
    GuestVerb(VM_PLURAL, "memorydump", "PUT", "memory", "edit", listed=False),
    GuestVerb(VM_PLURAL, "removememorydump", "PUT", "memory", "edit", listed=False),
    GuestVerb(VM_PLURAL, "evacuate/cancel", "PUT", "evacuation", "edit"),
    GuestVerb(VM_PLURAL, "objectgraph", "GET", "graph", "view"),
    _change("pause", "Pause", "running", "pausable"),
    _change("unpause", "Unpause", "no-snapshot", "vmi-running", "paused"),
    _change("reset", "Reset"),
    _change("softreboot", "SoftReboot", "running", "rebootable"),
    _vmi("console", "GET", "stream", "edit", ("console", "node"), socket=SERIAL_SOCKET),
    # Ours: KubeVirt shows it as a container's log, to all users who may read Pods' logs.
    _vmi("console/log", "GET", "log", "edit", ("console-log",)),
    # Ours: the way of the guest's packets, which names links of the node.
    _vmi("network", "GET", "node", "edit", ("vmi-running", "node")),
    # Ours: CPU, memory and traffic of the last hour, day or month, also of a guest that has ended.
    _vmi("usage", "GET", "usage", "view", ("node",)),
    # All that a guest says and hears: the admin's, as pictures of its screen are.
    _vmi("network/capture", "GET", "capture", "admin", ("vmi-running", "node"), seconds=60.0),
    _vmi("vnc", "GET", "stream", "edit", _DISPLAY, socket=VNC_SOCKET, flags=(PRESERVE_SESSION,)),
    # Ours: one connection of a SPICE client, of which QEMU itself lets one in at a time.
    _vmi(
        "spice",
        "GET",
        "stream",
        "edit",
        ("spice", "node"),
        socket=SPICE_SOCKET,
        viewers=_SPICE_CONNECTIONS,
        flags=(PRESERVE_SESSION,),
    ),
    _forward(VMI_PLURAL, "{port}", listed=True),
    _forward(VMI_PLURAL, "{port}/{protocol}", listed=True),
    _facts("guestosinfo", "GetGuestInfo"),
    _facts("userlist", "GetUsers"),
    _facts("filesystemlist", "GetFilesystems"),
    # Ours: how much of a guest that moves is still to be sent, by its launcher on the node that it leaves.
    _vmi("migration", "GET", "facts", "view", ("vmi-running", "node"), "GetDomain"),
    # When the launcher and the node reached the steps of the guest's start: times, and nothing of the guest's.
    _vmi(TRACE, "GET", "facts", "view", ("node",), "GetMilestones"),
    # A picture of a display is the admin's to take; the right to open the display does not include it.
    _vmi("vnc/screenshot", "GET", "picture", "admin", _DISPLAY, "Screenshot", flags=(MOVE_CURSOR,), seconds=30.0),
    _command("freeze", "Freeze", "running", failure_event=_FREEZE_ERROR),
    _command("unfreeze", "Unfreeze", "vmi-running"),
    _volume(VMI_PLURAL, "addvolume"),
    _volume(VMI_PLURAL, "removevolume"),
    _make_later(VMI_PLURAL, "backup", "nobody"),
    _make_later(VMI_PLURAL, "redefine-checkpoint", "nobody"),
    GuestVerb(VMI_PLURAL, "evacuate/cancel", "PUT", "evacuation", "edit"),
    GuestVerb(VMI_PLURAL, "objectgraph", "GET", "graph", "view"),
    _vmi("usbredir", "GET", "stream", "edit", ("usb-slots", "node"), socket=USB_SOCKET, slots=USB_SLOTS, listed=False),
    # A port of the guest's vsock, of which clients may have several connections.
    _vmi("vsock", "GET", "vsock", "nobody", ("vsock", "node"), viewers=_VSOCK_CONNECTIONS, listed=False),
    # The owner of an encrypted guest attests its host, names the keys, sees what was measured, and gives it a secret.
    _sev("fetchcertchain", "GET", "facts", "view", ("assigned", "attestation", "node"), "GetSevInfo"),
    _sev("querylaunchmeasurement", "GET", "facts", "view", _MEASURED, "GetLaunchMeasurement"),
    _sev("setupsession", "PUT", "session", "edit"),
    _sev("injectlaunchsecret", "PUT", "change", "edit", _MEASURED, "InjectLaunchSecret"),
)
RELAYED_VERBS: Final[Mapping[str, GuestVerb]] = {verb.name: verb for verb in GUEST_VERBS if verb.is_relayed}

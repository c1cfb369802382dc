"""What `virsh` in the launcher's container does not do, and which command to use instead.

Called by `virsh_command`. Pure. A change behind the API's back would be undone, or would end the guest.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_EDIT = "edit the VM: kubectl edit vm NAME"
# By virsh's word. Each command is one of kvedge's; virtctl has the same words, where it has them.
REMEDIES: Mapping[str, str] = {
    "start": "kvedge start NAME",
    "create": "kvedge apply -f vm.yaml",
    "define": "kvedge apply -f vm.yaml",
    "edit": "kubectl edit vm NAME",
    "undefine": "kvedge delete vm NAME",
    "shutdown": "kvedge stop NAME",
    "destroy": "kvedge stop NAME --force --grace-period 0",
    "reboot": "kvedge soft-reboot NAME",
    "reset": "kvedge reset NAME",
    "suspend": "kvedge pause NAME",
    "resume": "kvedge unpause NAME",
    "console": "kvedge console NAME",
    "vncdisplay": "kvedge vnc NAME",
    "domdisplay": "kvedge vnc NAME",
    "screenshot": "kvedge vnc screenshot NAME -f FILE",
    "attach-disk": "kvedge addvolume NAME --volume-name VOLUME",
    "attach-device": "kvedge addvolume NAME --volume-name VOLUME",
    "detach-disk": "kvedge removevolume NAME --volume-name VOLUME",
    "detach-device": "kvedge removevolume NAME --volume-name VOLUME",
    "change-media": _EDIT,
    "attach-interface": _EDIT,
    "detach-interface": _EDIT,
    "domif-setlink": _EDIT,
    "update-device": _EDIT,
    "setvcpus": _EDIT,
    "setmem": _EDIT,
    "setmaxmem": _EDIT,
    "vcpupin": _EDIT,
    "emulatorpin": _EDIT,
    "blockresize": "kvedge volume resize CLAIM SIZE",
    "domfsinfo": "kvedge fslist NAME",
    "guestinfo": "kvedge guestosinfo NAME",
    "domhostname": "kvedge guestosinfo NAME",
    "qemu-agent-command": "kvedge guestosinfo NAME, kvedge userlist NAME, kvedge fslist NAME",
    "qemu-monitor-command": "kvedge report",
}


def refusal(verb: str, shown: str) -> str:
    """Why a verb that is none of those `shown` is not done, and what to use instead."""
    remedy = REMEDIES.get(verb)
    if remedy is not None:
        return f"virsh only shows a guest here, and does not {verb}; use instead: {remedy}"
    return f"virsh only shows a guest here, and does not know {verb!r}; it knows: {shown}"

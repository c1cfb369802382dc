"""A guest with the QEMU guest agent or a false one, a disk that can be frozen, and a way to run commands in it.

For the machine tests of the launcher. The commands go to its web server.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.support.guest import KERNEL_ARGUMENTS, build_guest
from tests.support.launcher_pod import GUEST_ADDRESS, NETWORK, LauncherPod

RUN_PATH = "/cgi-bin/run"
# Root's commands by HTTP, a disk mounted at /data, and a place where logins are noted.
USER_DATA = r"""#!/bin/sh
mkdir -p /www/cgi-bin /data
cat >/www/cgi-bin/run <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
exec sh 2>&1
END
chmod 755 /www/cgi-bin/run
touch /run/utmp
mke2fs -q /dev/vda >/dev/null 2>&1 && mount /dev/vda /data
"""
# `port` names the agent's port; `fake ANSWER` greets libvirt as an agent does, and then answers everything with what
# the command ANSWER prints.
FALSE_AGENT = r"""
cat >/bin/port <<'END'
#!/bin/sh
for port in /sys/class/virtio-ports/*; do
    grep -qx org.qemu.guest_agent.0 "$port/name" && echo "/dev/${port##*/}"
done
END
cat >/bin/fake <<'END'
#!/bin/sh
exec 3<>"$(port)"
while :; do
    # Nobody is at the other end at first.
    read -r line <&3 || { usleep 50000; continue; }
    case $line in
    *guest-sync*) echo "{\"return\": $(echo "$line" | sed -n 's/.*"id": *\([0-9]*\).*/\1/p')}" >&3 ;;
    *) eval "$1" >&3 ;;
    esac
done
END
chmod 755 /bin/port /bin/fake
"""
# Instead of the real one.
NO_AGENT = f"rm /usr/sbin/qemu-ga\n{FALSE_AGENT}"


def agent_image(tree: Path) -> Path:
    """Fill a kernel image's tree; its guest has the agent."""
    tree.chmod(0o755)
    guest = build_guest(agent=True)
    (tree / "boot").mkdir()
    shutil.copyfile(guest.kernel, tree / "boot" / "vmlinuz")
    shutil.copyfile(guest.initrd, tree / "boot" / "initrd")
    return tree


def agent_vmi(pod: LauncherPod, more: str = "") -> dict[str, Any]:
    """The guest, booted by its kernel, with a disk of its own; `more` is shell that it runs before its agent starts."""
    container = {"image": "kernel", "kernelPath": "/boot/vmlinuz", "initrdPath": "/boot/initrd"}
    disk = {"bus": "virtio"}
    return pod.vmi(
        domain={
            "memory": {"guest": "192Mi"},
            "firmware": {"kernelBoot": {"kernelArgs": KERNEL_ARGUMENTS, "container": container}},
            "devices": {
                "disks": [{"name": "data", "disk": disk}, {"name": "seed", "disk": disk}],
                "interfaces": NETWORK["interfaces"],
            },
        },
        networks=NETWORK["networks"],
        volumes=[
            {"name": "data", "emptyDisk": {"capacity": "16Mi"}},
            {"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA + more}},
        ],
    )


def in_guest(pod: LauncherPod, command: str, seconds: float = 20.0) -> str:
    """What a command prints in the guest; it must not leave anything behind that holds its output open."""
    limit = ["--max-time", str(seconds), "--data-binary", command]
    return pod.run("curl", "-sf", *limit, f"http://{GUEST_ADDRESS}{RUN_PATH}", seconds=seconds + 5)


def false_agent(pod: LauncherPod, command: str) -> None:
    """Have a guest with NO_AGENT run a command behind our back, until `no_agent`."""
    start = "setsid sh /run/behind </dev/null >/dev/null 2>&1 &"
    in_guest(pod, f"cat >/run/behind <<'END_OF_BEHIND'\necho $$ >/run/behind.pid\n{command}\nEND_OF_BEHIND\n{start}")


def no_agent(pod: LauncherPod) -> None:
    """End it, with all that it has started."""
    in_guest(pod, "kill -9 -$(cat /run/behind.pid); true")

"""The table of verbs: where each lives, what it is for in one line, and under which heading help shows it.

Read by `main`, `group` and completion. Help of the whole program comes from here, so that no verb is imported for it;
a test holds each line against the verb's own help.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A verb's module below kvedge.cli, and its line of help.

    No dataclass: `kvedge version` would pay for inspect.
    """

    module: str
    help: str


_MACHINES: Final[dict[str, Verb]] = {
    "launch": Verb("launch_verb", "Create a VM from an image and start it."),
    "list": Verb("list_verb", "Show the VMs: status, address, node, age, memory, image."),
    "start": Verb("power_verbs", "Start a VM."),
    "stop": Verb("power_verbs", "Shut a VM down."),
    "restart": Verb("power_verbs", "Shut a VM down and start it again."),
    "pause": Verb("pause_verbs", "Stop a guest's CPUs; its memory stays."),
    "unpause": Verb("pause_verbs", "Let a paused guest go on."),
    "reset": Verb("pause_verbs", "Reset a guest at once, as its reset button would."),
    "soft-reboot": Verb("pause_verbs", "Ask a guest to reboot, by its agent or by ACPI."),
    "create": Verb("create_verb", "Print a manifest: `kvedge create vm`."),
    "expand": Verb("expand_verb", "Show a VM with its instance type and preference worked in."),
    "expose": Verb("expose_verb", "Make a Service for a port of a VM."),
}
_GUESTS: Final[dict[str, Verb]] = {
    "console": Verb("console_verb", "Connect to a guest's serial console; Ctrl+] leaves it."),
    "vnc": Verb("vnc_verb", "Open a guest's screen in a VNC viewer, or save a picture of it."),
    "ssh": Verb("ssh_verbs", "Open an SSH connection to a guest, with the ssh of this computer."),
    "scp": Verb("ssh_verbs", "Copy files from or to a guest, with the scp of this computer."),
    "port-forward": Verb("port_forward_verb", "Forward local ports to ports of a guest."),
    "guestosinfo": Verb("guest_verbs", "Show what a guest's agent says of its operating system."),
    "userlist": Verb("guest_verbs", "Show who is logged in to a guest."),
    "fslist": Verb("guest_verbs", "Show a guest's file systems."),
}
_OBJECTS: Final[dict[str, Verb]] = {
    "apply": Verb("apply_verb", "Create or change what manifests describe: `kvedge apply -f vm.yaml`."),
    "get": Verb("get_verb", "Show objects: `kvedge get vm`, `kvedge get vmi/web -o yaml`."),
    "describe": Verb("describe_verb", "Show one object and what happened to it: `kvedge describe vm web`."),
    "delete": Verb("delete_verb", "Delete objects: `kvedge delete vm web`, `kvedge delete -f vm.yaml`."),
    "logs": Verb("logs_verb", "Show a launcher's log: `kvedge logs vmi/web`."),
    "image": Verb("image_verbs", "Images for container disks, kept on this box."),
    "user": Verb("user_verbs", "Users of the API: certificates and rights for people and programs."),
}
_HOST: Final[dict[str, Verb]] = {
    "standalone": Verb(
        "roles", "Run a whole node without Kubernetes: API, node agent, controller, api and handler in one process."
    ),
    "node": Verb("roles", "Run controller, api and handler in one process, for a cluster."),
    "controller": Verb("roles", "Run the controller against a cluster; one of several works, elected by a Lease."),
    "api": Verb("roles", "Run admission and subresources for a cluster."),
    "handler": Verb("roles", "Run the handler of this node for a cluster."),
    "install": Verb("install_verbs", "Install this file as a service of this host; with a newer file, upgrade."),
    "upgrade": Verb(
        "install_verbs",
        "Make this file the one that is installed; VMs run on, and the old one comes back when it does not work.",
    ),
    "uninstall": Verb(
        "install_verbs", "Shut all guests down and take kvedge off this host; may be run again, and needs no API."
    ),
    "status": Verb("install_verbs", "Show whether kvedge works on this host: unit, API, node, VMs."),
    "doctor": Verb("doctor_verb", "Check whether this host can run VMs; each finding comes with its remedy."),
    "host-shutdown": Verb(
        "host_shutdown_verb",
        "Shut all guests of this host down, each within its own grace period; they run again when the host does.",
    ),
    "bundle": Verb("bundle_verbs", "Pack program, images and manifests for a site into one file, and use it there."),
    "state": Verb("state_verbs", "Copy, put back and check what makes a box: objects, authorities, certificates."),
    "report": Verb(
        "report_verb", "Collect findings, settings, objects and logs into one file for support, with secrets removed."
    ),
    "show-config": Verb("config_verb", "Show the settings that the roles would run with, and where each comes from."),
    "killall": Verb(
        "killall_verb", "End all VMs of one box and remove their namespaces, links, mounts and rules; may be run again."
    ),
}
_PROGRAM: Final[dict[str, Verb]] = {
    "completion": Verb("completion_verb", "Print the script that completes kvedge's words in a shell."),
    "version": Verb("version_verb", "Show the version of this program and of the server."),
}

# Heading in the program's help → its verbs, in order.
SECTIONS: Final[dict[str, dict[str, Verb]]] = {
    "Virtual machines": _MACHINES,
    "Guests": _GUESTS,
    "Objects and images": _OBJECTS,
    "This host": _HOST,
    "This program": _PROGRAM,
}
VERBS: Final[dict[str, Verb]] = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}

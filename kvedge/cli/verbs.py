"""The table of verbs: where each lives, what it is for in one line, and under which heading help shows it.

Read by `main`, `group` and completion. Help of the whole program comes from here, so that no verb is imported for it;
a test holds each line against the verb's own help.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """A verb's module below kvedge.cli, in the folder of its heading, and its line of help.

    No dataclass: `kvedge version` would pay for inspect.
    """

    module: str
    help: str


_MACHINES: Final[dict[str, Verb]] = {
    "launch": Verb("machines.launch_verb", "Create a VM from an image and start it."),
    "list": Verb("machines.list_verb", "Show the VMs: status, address, node, age, memory, image."),
    "start": Verb("machines.power_verbs", "Start a VM."),
    "stop": Verb("machines.power_verbs", "Shut a VM down."),
    "restart": Verb("machines.power_verbs", "Shut a VM down and start it again."),
    "pause": Verb("machines.pause_verbs", "Stop a guest's CPUs; its memory stays."),
    "unpause": Verb("machines.pause_verbs", "Let a paused guest go on."),
    "reset": Verb("machines.pause_verbs", "Reset a guest at once, as its reset button would."),
    "soft-reboot": Verb("machines.pause_verbs", "Ask a guest to reboot, by its agent or by ACPI."),
    "evacuate-cancel": Verb("machines.evacuation_verb", "Have a guest stay that an eviction has marked to leave."),
    "objectgraph": Verb(
        "machines.graph_verb",
        "Show the objects that a VM names, as a tree.",
    ),
    "migrate": Verb(
        "machines.migrate_verbs", "Move a running VM to another node or box, or its disks to another class."
    ),
    "migrate-cancel": Verb("machines.migrate_verbs", "Have a VM stay that is about to move."),
    "addvolume": Verb("machines.volume_verbs", "Give a VM another disk, also while it runs."),
    "removevolume": Verb("machines.volume_verbs", "Take a disk from a VM, also while it runs."),
    "memory-dump": Verb(
        "machines.memory_dump_verbs", "Write a running guest's memory into a claim: `memory-dump get VM`."
    ),
    "top": Verb("machines.top_verb", "Show what each VM uses of CPUs, memory, disks and networks."),
    "trace": Verb("machines.trace_verb", "Show how a VM's last start went: each step, to milliseconds."),
    "snapshot": Verb("machines.snapshot_verbs", "Snapshots: VMs with their disks, as they were at one time."),
    "export": Verb("machines.file_verbs", "Write a VM with its disks into one file."),
    "import": Verb(
        "machines.file_verbs",
        "Make a VM of a file: what `kvedge export` wrote, an appliance (OVA), or a libvirt domain with its disks.",
    ),
    "vmexport": Verb(
        "machines.export_verbs",
        "Exports of disks as objects, as virtctl has them; `kvedge export` writes a VM into one file.",
    ),
    "backup": Verb("machines.backup_verbs", "Backups: VMs with their disks, encrypted, outside this box."),
    "clone": Verb(
        "machines.clone_verb", "Make a VM like another one, with disks and addresses of its own; it does not run."
    ),
    "create": Verb("machines.create_verb", "Print a manifest: `kvedge create vm|instancetype|preference`."),
    "expand": Verb("machines.expand_verb", "Show a VM with its instance type and preference worked in."),
    "expose": Verb("machines.expose_verb", "Make a Service for a port of a VM."),
}
_GUESTS: Final[dict[str, Verb]] = {
    "console": Verb("guests.console_verb", "Connect to a guest's serial console; Ctrl+] leaves it."),
    "vnc": Verb("guests.vnc_verb", "Open a guest's screen in a VNC viewer, or save a picture of it."),
    "spice": Verb("guests.spice_verb", "Open a guest's screen in a SPICE viewer, with its sound and USB devices."),
    "rdp": Verb("guests.rdp_verb", "Open a guest's desktop in an RDP viewer, as Windows has it."),
    "usbredir": Verb("guests.usbredir_verb", "Hand a USB device of this computer to a guest."),
    "web": Verb("guests.web_verb", "Show VMs, consoles and screens in a browser of this computer."),
    "ssh": Verb("guests.ssh_verbs", "Open an SSH connection to a guest, with the ssh of this computer."),
    "scp": Verb("guests.ssh_verbs", "Copy files from or to a guest, with the scp of this computer."),
    "port-forward": Verb("guests.port_forward_verb", "Forward local ports to ports of a guest."),
    "vsock": Verb(
        "guests.vsock_verb", "Join a port of a guest's vsock to standard input and output: `kvedge vsock web 1234`."
    ),
    "capture": Verb("guests.capture_verb", "Record what passes a guest's interface, for Wireshark or tcpdump."),
    "credentials": Verb(
        "guests.credential_verbs",
        "SSH keys and passwords that a guest's agent brings in: `credentials add-ssh-key`.",
    ),
    "guestosinfo": Verb("guests.guest_verbs", "Show what a guest's agent says of its operating system."),
    "userlist": Verb("guests.guest_verbs", "Show who is logged in to a guest."),
    "fslist": Verb("guests.guest_verbs", "Show a guest's file systems."),
}
_OBJECTS: Final[dict[str, Verb]] = {
    "apply": Verb("objects.apply_verb", "Create or change what manifests describe: `kvedge apply -f vm.yaml`."),
    "get": Verb("objects.get_verb", "Show objects: `kvedge get vm`, `kvedge get vmi/web -o yaml`."),
    "describe": Verb("objects.describe_verb", "Show one object and what happened to it: `kvedge describe vm web`."),
    "delete": Verb("objects.delete_verb", "Delete objects: `kvedge delete vm web`, `kvedge delete -f vm.yaml`."),
    "scale": Verb("objects.scale_verb", "Set how many VMs a set keeps: `kvedge scale vmirs/web --replicas 3`."),
    "events": Verb(
        "objects.events_verb", "Show what happened, of all objects or of one VM: `kvedge events web --follow`."
    ),
    "logs": Verb("objects.logs_verb", "Show a launcher's log: `kvedge logs vmi/web`."),
    "image": Verb("objects.image_verbs", "Images for container disks, kept on this box."),
    "tasks": Verb("objects.task_verb", "Show what is under way: imports, copies, snapshots, backups, migrations."),
    "volume": Verb("objects.volume_verbs", "Volumes: the claims on which disks of VMs last."),
    "network": Verb(
        "objects.network_verbs", "Networks: the LAN, or one of VMs among themselves, besides the Pod network."
    ),
    "device": Verb("objects.device_verbs", "Devices of the nodes for guests: GPUs, PCI cards, USB devices."),
    "permitted-devices": Verb("objects.device_verbs", "Show which devices of nodes VMs may name."),
    "image-upload": Verb(
        "objects.image_upload_verb", "Upload an image into a DataVolume, and so into its claim, or into a claim alone."
    ),
    "user": Verb("objects.user_verbs", "Users of the API: certificates and rights for people and programs."),
}
_HOST: Final[dict[str, Verb]] = {
    "standalone": Verb(
        "host.roles",
        "Run a whole node without Kubernetes: API, node agent, controller, api and handler in one process.",
    ),
    "node": Verb("host.roles", "Run controller, api and handler in one process, for a cluster."),
    "controller": Verb("host.roles", "Run the controller against a cluster; one of several works, elected by a Lease."),
    "api": Verb("host.roles", "Run admission and subresources for a cluster."),
    "handler": Verb("host.roles", "Run the handler of this node for a cluster."),
    "install": Verb("host.install_verbs", "Install this file as a service of this host; with a newer file, upgrade."),
    "upgrade": Verb(
        "host.install_verbs",
        "Make this file the one that is installed; VMs run on, and the old one comes back when it does not work.",
    ),
    "uninstall": Verb(
        "host.install_verbs", "Shut all guests down and take kvedge off this host; may be run again, and needs no API."
    ),
    "status": Verb("host.install_verbs", "Show whether kvedge works on this host: unit, API, node, VMs."),
    "alarms": Verb("host.alarm_verbs", "Show what is wrong with VMs, nodes and backups now, and what to do about it."),
    "adm": Verb("host.adm_verbs", "Settings of the whole installation, as virtctl has them."),
    "audit": Verb("host.audit_verb", "Show who did what on this box: user, verb, object, outcome."),
    "doctor": Verb("host.doctor_verb", "Check whether this host can run VMs; each finding comes with its remedy."),
    "host-shutdown": Verb(
        "host.host_shutdown_verb",
        "Shut all guests of this host down, each within its own grace period; they run again when the host does.",
    ),
    "bundle": Verb(
        "host.bundle_verbs", "Pack program, images and manifests for a site into one file, and use it there."
    ),
    "state": Verb("host.state_verbs", "Copy, put back and check what makes a box: objects, authorities, certificates."),
    "recover": Verb(
        "host.recover_verb",
        "Make claims, snapshots and VMs anew of the disks of this box whose objects are lost; what exists stays.",
    ),
    "report": Verb(
        "host.report_verb",
        "Collect findings, settings, objects and logs into one file for support, with secrets removed.",
    ),
    "show-config": Verb(
        "host.config_verb", "Show the settings that the roles would run with, and where each comes from."
    ),
    "killall": Verb(
        "host.killall_verb",
        "End all VMs of one box and remove their namespaces, links, mounts and rules; may be run again.",
    ),
}
_PROGRAM: Final[dict[str, Verb]] = {
    "completion": Verb("program.completion_verb", "Print the script that completes kvedge's words in a shell."),
    "version": Verb("program.version_verb", "Show the version of this program and of the server."),
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

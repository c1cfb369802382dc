"""What a launcher is told on its command line, and where things are in its Pod.

Made by the `launcher` subcommand; read by the monitor and by everything in the launcher. The monitor stays in memory
for the guest's whole life: nothing heavier than `os` may be imported here, which rules out dataclasses and pathlib.
"""

from __future__ import annotations

from kvedge.resources.migration_channels import MIGRATION_FOLDER
from kvedge.resources.values.hook_names import HOOK_SOCKETS_DIRECTORY


class LauncherOptions:
    """The identity of one VMI's run and the rules for its end.

    `grace_period_seconds` is how long the guest gets after SIGTERM until QEMU is ended. `root` is put before every path
    of the Pod's layout: "" in a Pod, a directory in a test. `incoming` is the UID of the migration by which the guest
    comes, "" for a guest that starts here. `hook_sidecars` is the number of such containers beside it.
    `guest_architecture` is one that QEMU emulates on a host of another, "" for the host's own.
    """

    __slots__ = (
        "grace_period_seconds",
        "guest_architecture",
        "hook_sidecars",
        "incoming",
        "keep_after_failure",
        "log_level",
        "name",
        "namespace",
        "root",
        "uid",
    )

    def __init__(
        self,
        *,
        namespace: str,
        name: str,
        uid: str,
        grace_period_seconds: int = 45,
        keep_after_failure: bool = False,
        root: str = "",
        log_level: str = "info",
        incoming: str = "",
        hook_sidecars: int = 0,
        guest_architecture: str = "",
    ) -> None:
        for field, value in (("namespace", namespace), ("name", name), ("uid", uid)):
            # They become parts of paths.
            if not value or "/" in value or value.startswith("."):
                raise ValueError(f"{field} {value!r} is no name")
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.grace_period_seconds = grace_period_seconds
        self.keep_after_failure = keep_after_failure
        self.root = root.rstrip("/")
        self.log_level = log_level
        self.incoming = incoming
        self.hook_sidecars = hook_sidecars
        self.guest_architecture = guest_architecture

    @property
    def domain_name(self) -> str:
        """libvirt's name of the domain."""
        return f"{self.namespace}_{self.name}"

    @property
    def public_directory(self) -> str:
        """The Pod's volume `public`."""
        return f"{self.root}/var/run/kubevirt"

    @property
    def socket_path(self) -> str:
        """Where the gRPC server listens."""
        return f"{self.public_directory}/sockets/launcher-sock"

    @property
    def final_path(self) -> str:
        """The launcher's last word: how the domain ended."""
        return f"{self.public_directory}/final.json"

    @property
    def host_shutdown_path(self) -> str:
        """A file that the host puts there before it asks for the end because it goes down."""
        return f"{self.public_directory}/host-shutdown"

    @property
    def private_directory(self) -> str:
        """The Pod's volume `private`."""
        return f"{self.root}/var/run/kubevirt-private"

    @property
    def run_directory(self) -> str:
        """Console sockets and the marks of this run."""
        return f"{self.private_directory}/{self.uid}"

    @property
    def begun_path(self) -> str:
        """A file that is there once the guest has been started."""
        return f"{self.run_directory}/begun"

    @property
    def libvirt_root(self) -> str:
        """The root of the embedded libvirt."""
        return f"{self.private_directory}/libvirt"

    @property
    def migration_directory(self) -> str:
        """The sockets by which a guest comes or goes."""
        return f"{self.public_directory}/{MIGRATION_FOLDER}"

    @property
    def capabilities_directory(self) -> str:
        """The node's seed of libvirt's capabilities cache, read-only."""
        return f"{self.root}/var/run/kubevirt-capabilities"

    @property
    def image_volumes_directory(self) -> str:
        """Where images of container disks and of kernels are mounted."""
        return f"{self.root}/var/run/kubevirt-image-volume"

    @property
    def ephemeral_directory(self) -> str:
        """The Pod's volume `ephemeral-disks`."""
        return f"{self.root}/var/run/kubevirt-ephemeral-disks"

    @property
    def runtime_directory(self) -> str:
        """The Pod's volume `libvirt-runtime`."""
        return f"{self.root}/var/run/libvirt"

    @property
    def secret_directory(self) -> str:
        """Where the Pod's secret volumes are mounted."""
        return f"{self.private_directory}/secret"

    @property
    def hooks_directory(self) -> str:
        """One directory for each hook sidecar, with its socket."""
        return f"{self.root}{HOOK_SOCKETS_DIRECTORY}"

    def arguments(self) -> list[str]:
        """These options as the subcommand's arguments."""
        made = ["--namespace", self.namespace, "--name", self.name, "--uid", self.uid]
        made += ["--grace-period-seconds", str(self.grace_period_seconds), "--log-level", self.log_level]
        made += ["--root", self.root] if self.root else []
        made += ["--incoming", self.incoming] if self.incoming else []
        made += ["--hook-sidecars", str(self.hook_sidecars)] if self.hook_sidecars else []
        made += ["--guest-architecture", self.guest_architecture] if self.guest_architecture else []
        return [*made, "--keep-after-failure"] if self.keep_after_failure else made

"""What `kvedge doctor` looks at: one host, as data.

Made by host_reader.py, judged by the rules beside it. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

Version = tuple[int, ...]


class DeviceState(Struct, frozen=True):
    """A device node: whether it is there, and why it cannot be opened (empty when it can)."""

    exists: bool
    refusal: str = ""


class DiskFacts(Struct, frozen=True):
    """The file system below the data directory; sizes in bytes, `options` as in mountinfo.

    `shares_blocks` says whether two files could share a block there; None when that could not be tried.
    """

    path: str
    kind: str
    options: frozenset[str]
    free: int
    free_inodes: int
    shares_blocks: bool | None = None


class KvmFacts(Struct, frozen=True):
    """Whether a guest ran on KVM, and what to tell; `tried` is False when nobody wanted to know."""

    tried: bool
    works: bool = False
    detail: str = ""


class HostFacts(Struct, frozen=True):
    """One host. Versions are empty for what is not installed; sizes in bytes; names as the kernel has them."""

    machine: str
    kernel: Version
    cpu_flags: frozenset[str]
    nested: str
    kvm: KvmFacts
    devices: Mapping[str, DeviceState]
    # Module → whether it is loaded or built in (True), could be loaded (False); a module that is not there is missing.
    modules: Mapping[str, bool]
    libvirt: Version
    libvirt_qemu_driver: bool
    qemu: Version
    qemu_spice: bool
    commands: frozenset[str]
    cgroup_controllers: frozenset[str]
    disk: DiskFacts
    memory_total: int
    memory_available: int
    limits: Mapping[str, int]
    selinux: str
    apparmor: bool
    # Why the API's port cannot be listened on; empty when it can.
    port_refusal: str
    year: int
    clock_synchronized: bool | None
    resolvers: tuple[str, ...]
    host_name: str
    init: str
    # Whether the instance of this data directory runs, and what of ours is there all the same.
    kvedge_runs: bool
    leftovers: tuple[str, ...]
    data_dir_mode: int | None
    data_dir_owner: int | None
    # The names of user and group 107 on this host, as which launchers run; empty where there is none.
    launcher_user: str
    launcher_group: str
    # The members of that group, apart from the user of the same number.
    launcher_group_members: tuple[str, ...]
    # Networks of this host's links, in CIDR notation, by link.
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The node bridge, and what filters what is forwarded to it and from it; None where that cannot be looked at.
    bridge: str = "kvedge0"
    filters: tuple[str, ...] | None = ()
    # 0 where there is no IOMMU, or it is off.
    iommu_groups: int = 0
    # Whether systemd-resolved resolves names on this host.
    resolved_runs: bool = True
    # What the kernel's first watchdog calls itself, and whether somebody has it open or it cannot be stopped.
    watchdog: str = ""
    watchdog_is_taken: bool = False

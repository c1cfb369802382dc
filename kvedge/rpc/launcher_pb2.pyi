from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OutgoingState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTGOING_NONE: _ClassVar[OutgoingState]
    OUTGOING_ACTIVE: _ClassVar[OutgoingState]
    OUTGOING_RESUMING: _ClassVar[OutgoingState]
    OUTGOING_KEPT: _ClassVar[OutgoingState]
    OUTGOING_GONE: _ClassVar[OutgoingState]

class IncomingState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INCOMING_NONE: _ClassVar[IncomingState]
    INCOMING_EMPTY: _ClassVar[IncomingState]
    INCOMING_READY: _ClassVar[IncomingState]
    INCOMING_ARRIVING: _ClassVar[IncomingState]
    INCOMING_COMPLETE: _ClassVar[IncomingState]
    INCOMING_OWNED: _ClassVar[IncomingState]
    INCOMING_FAILED: _ClassVar[IncomingState]

class DiskCopyState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISK_COPY_NONE: _ClassVar[DiskCopyState]
    DISK_COPY_PREPARING: _ClassVar[DiskCopyState]
    DISK_COPY_ACTIVE: _ClassVar[DiskCopyState]
    DISK_COPY_COMPLETE: _ClassVar[DiskCopyState]
    DISK_COPY_FAILED: _ClassVar[DiskCopyState]

class MemoryDumpState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_DUMP_STATE_NONE: _ClassVar[MemoryDumpState]
    MEMORY_DUMP_STATE_ACTIVE: _ClassVar[MemoryDumpState]
    MEMORY_DUMP_STATE_COMPLETE: _ClassVar[MemoryDumpState]
    MEMORY_DUMP_STATE_FAILED: _ClassVar[MemoryDumpState]

class DiskMoveGoal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISK_MOVE_GOAL_UNSPECIFIED: _ClassVar[DiskMoveGoal]
    DISK_MOVE_GOAL_COPY: _ClassVar[DiskMoveGoal]
    DISK_MOVE_GOAL_SETTLE: _ClassVar[DiskMoveGoal]
    DISK_MOVE_GOAL_FINISH: _ClassVar[DiskMoveGoal]
    DISK_MOVE_GOAL_ABORT: _ClassVar[DiskMoveGoal]

class DiskMoveState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISK_MOVE_NONE: _ClassVar[DiskMoveState]
    DISK_MOVE_COPYING: _ClassVar[DiskMoveState]
    DISK_MOVE_READY: _ClassVar[DiskMoveState]
    DISK_MOVE_SETTLED: _ClassVar[DiskMoveState]
    DISK_MOVE_DONE: _ClassVar[DiskMoveState]
    DISK_MOVE_FAILED: _ClassVar[DiskMoveState]

class DomainState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOMAIN_STATE_ABSENT: _ClassVar[DomainState]
    DOMAIN_STATE_STARTING: _ClassVar[DomainState]
    DOMAIN_STATE_RUNNING: _ClassVar[DomainState]
    DOMAIN_STATE_PAUSED: _ClassVar[DomainState]
    DOMAIN_STATE_SHUTTING_DOWN: _ClassVar[DomainState]
    DOMAIN_STATE_SHUTOFF: _ClassVar[DomainState]
    DOMAIN_STATE_CRASHED: _ClassVar[DomainState]

class DomainReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOMAIN_REASON_UNSPECIFIED: _ClassVar[DomainReason]
    DOMAIN_REASON_BOOTED: _ClassVar[DomainReason]
    DOMAIN_REASON_UNPAUSED: _ClassVar[DomainReason]
    DOMAIN_REASON_USER: _ClassVar[DomainReason]
    DOMAIN_REASON_IO_ERROR: _ClassVar[DomainReason]
    DOMAIN_REASON_SHUTDOWN: _ClassVar[DomainReason]
    DOMAIN_REASON_DESTROYED: _ClassVar[DomainReason]
    DOMAIN_REASON_CRASHED: _ClassVar[DomainReason]
    DOMAIN_REASON_PANICKED: _ClassVar[DomainReason]
    DOMAIN_REASON_FAILED: _ClassVar[DomainReason]
    DOMAIN_REASON_STARTING_UP: _ClassVar[DomainReason]
    DOMAIN_REASON_MIGRATED: _ClassVar[DomainReason]
    DOMAIN_REASON_DUMP: _ClassVar[DomainReason]

class NicAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NIC_ACTION_UNSPECIFIED: _ClassVar[NicAction]
    NIC_ACTION_ATTACH: _ClassVar[NicAction]
    NIC_ACTION_DETACH: _ClassVar[NicAction]
    NIC_ACTION_LINK: _ClassVar[NicAction]
    NIC_ACTION_SERVE: _ClassVar[NicAction]

class DiskAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISK_ACTION_UNSPECIFIED: _ClassVar[DiskAction]
    DISK_ACTION_ATTACH: _ClassVar[DiskAction]
    DISK_ACTION_DETACH: _ClassVar[DiskAction]
    DISK_ACTION_INSERT: _ClassVar[DiskAction]
    DISK_ACTION_EJECT: _ClassVar[DiskAction]
OUTGOING_NONE: OutgoingState
OUTGOING_ACTIVE: OutgoingState
OUTGOING_RESUMING: OutgoingState
OUTGOING_KEPT: OutgoingState
OUTGOING_GONE: OutgoingState
INCOMING_NONE: IncomingState
INCOMING_EMPTY: IncomingState
INCOMING_READY: IncomingState
INCOMING_ARRIVING: IncomingState
INCOMING_COMPLETE: IncomingState
INCOMING_OWNED: IncomingState
INCOMING_FAILED: IncomingState
DISK_COPY_NONE: DiskCopyState
DISK_COPY_PREPARING: DiskCopyState
DISK_COPY_ACTIVE: DiskCopyState
DISK_COPY_COMPLETE: DiskCopyState
DISK_COPY_FAILED: DiskCopyState
MEMORY_DUMP_STATE_NONE: MemoryDumpState
MEMORY_DUMP_STATE_ACTIVE: MemoryDumpState
MEMORY_DUMP_STATE_COMPLETE: MemoryDumpState
MEMORY_DUMP_STATE_FAILED: MemoryDumpState
DISK_MOVE_GOAL_UNSPECIFIED: DiskMoveGoal
DISK_MOVE_GOAL_COPY: DiskMoveGoal
DISK_MOVE_GOAL_SETTLE: DiskMoveGoal
DISK_MOVE_GOAL_FINISH: DiskMoveGoal
DISK_MOVE_GOAL_ABORT: DiskMoveGoal
DISK_MOVE_NONE: DiskMoveState
DISK_MOVE_COPYING: DiskMoveState
DISK_MOVE_READY: DiskMoveState
DISK_MOVE_SETTLED: DiskMoveState
DISK_MOVE_DONE: DiskMoveState
DISK_MOVE_FAILED: DiskMoveState
DOMAIN_STATE_ABSENT: DomainState
DOMAIN_STATE_STARTING: DomainState
DOMAIN_STATE_RUNNING: DomainState
DOMAIN_STATE_PAUSED: DomainState
DOMAIN_STATE_SHUTTING_DOWN: DomainState
DOMAIN_STATE_SHUTOFF: DomainState
DOMAIN_STATE_CRASHED: DomainState
DOMAIN_REASON_UNSPECIFIED: DomainReason
DOMAIN_REASON_BOOTED: DomainReason
DOMAIN_REASON_UNPAUSED: DomainReason
DOMAIN_REASON_USER: DomainReason
DOMAIN_REASON_IO_ERROR: DomainReason
DOMAIN_REASON_SHUTDOWN: DomainReason
DOMAIN_REASON_DESTROYED: DomainReason
DOMAIN_REASON_CRASHED: DomainReason
DOMAIN_REASON_PANICKED: DomainReason
DOMAIN_REASON_FAILED: DomainReason
DOMAIN_REASON_STARTING_UP: DomainReason
DOMAIN_REASON_MIGRATED: DomainReason
DOMAIN_REASON_DUMP: DomainReason
NIC_ACTION_UNSPECIFIED: NicAction
NIC_ACTION_ATTACH: NicAction
NIC_ACTION_DETACH: NicAction
NIC_ACTION_LINK: NicAction
NIC_ACTION_SERVE: NicAction
DISK_ACTION_UNSPECIFIED: DiskAction
DISK_ACTION_ATTACH: DiskAction
DISK_ACTION_DETACH: DiskAction
DISK_ACTION_INSERT: DiskAction
DISK_ACTION_EJECT: DiskAction

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingReply(_message.Message):
    __slots__ = ("protocol", "version", "vmi_uid", "pid")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VMI_UID_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    version: str
    vmi_uid: str
    pid: int
    def __init__(self, protocol: _Optional[int] = ..., version: _Optional[str] = ..., vmi_uid: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class GuestInterface(_message.Message):
    __slots__ = ("name", "tap", "bridge", "mac", "mtu", "dhcp", "ipv6", "passt", "refresh_link")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TAP_FIELD_NUMBER: _ClassVar[int]
    BRIDGE_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    DHCP_FIELD_NUMBER: _ClassVar[int]
    IPV6_FIELD_NUMBER: _ClassVar[int]
    PASST_FIELD_NUMBER: _ClassVar[int]
    REFRESH_LINK_FIELD_NUMBER: _ClassVar[int]
    name: str
    tap: str
    bridge: str
    mac: str
    mtu: int
    dhcp: DhcpLease
    ipv6: Ipv6Lease
    passt: Passt
    refresh_link: bool
    def __init__(self, name: _Optional[str] = ..., tap: _Optional[str] = ..., bridge: _Optional[str] = ..., mac: _Optional[str] = ..., mtu: _Optional[int] = ..., dhcp: _Optional[_Union[DhcpLease, _Mapping]] = ..., ipv6: _Optional[_Union[Ipv6Lease, _Mapping]] = ..., passt: _Optional[_Union[Passt, _Mapping]] = ..., refresh_link: _Optional[bool] = ...) -> None: ...

class Passt(_message.Message):
    __slots__ = ("nic", "all_ports", "tcp", "udp", "kept")
    NIC_FIELD_NUMBER: _ClassVar[int]
    ALL_PORTS_FIELD_NUMBER: _ClassVar[int]
    TCP_FIELD_NUMBER: _ClassVar[int]
    UDP_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    nic: str
    all_ports: bool
    tcp: _containers.RepeatedScalarFieldContainer[int]
    udp: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nic: _Optional[str] = ..., all_ports: _Optional[bool] = ..., tcp: _Optional[_Iterable[int]] = ..., udp: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[int]] = ...) -> None: ...

class DhcpLease(_message.Message):
    __slots__ = ("address", "prefix_length", "server", "gateway", "routes", "dns", "search", "hostname", "domain", "mtu", "ntp", "tftp_server", "boot_file", "private_options", "lease_seconds")
    class PrivateOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    DNS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    NTP_FIELD_NUMBER: _ClassVar[int]
    TFTP_SERVER_FIELD_NUMBER: _ClassVar[int]
    BOOT_FILE_FIELD_NUMBER: _ClassVar[int]
    PRIVATE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    address: str
    prefix_length: int
    server: str
    gateway: str
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    dns: _containers.RepeatedScalarFieldContainer[str]
    search: _containers.RepeatedScalarFieldContainer[str]
    hostname: str
    domain: str
    mtu: int
    ntp: _containers.RepeatedScalarFieldContainer[str]
    tftp_server: str
    boot_file: str
    private_options: _containers.ScalarMap[int, str]
    lease_seconds: int
    def __init__(self, address: _Optional[str] = ..., prefix_length: _Optional[int] = ..., server: _Optional[str] = ..., gateway: _Optional[str] = ..., routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ..., dns: _Optional[_Iterable[str]] = ..., search: _Optional[_Iterable[str]] = ..., hostname: _Optional[str] = ..., domain: _Optional[str] = ..., mtu: _Optional[int] = ..., ntp: _Optional[_Iterable[str]] = ..., tftp_server: _Optional[str] = ..., boot_file: _Optional[str] = ..., private_options: _Optional[_Mapping[int, str]] = ..., lease_seconds: _Optional[int] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("destination", "gateway")
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    destination: str
    gateway: str
    def __init__(self, destination: _Optional[str] = ..., gateway: _Optional[str] = ...) -> None: ...

class Ipv6Lease(_message.Message):
    __slots__ = ("address", "server_mac", "router", "is_default", "subnet", "routes", "dns", "search", "mtu", "lease_seconds")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SERVER_MAC_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    DNS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    address: str
    server_mac: str
    router: str
    is_default: bool
    subnet: str
    routes: _containers.RepeatedScalarFieldContainer[str]
    dns: _containers.RepeatedScalarFieldContainer[str]
    search: _containers.RepeatedScalarFieldContainer[str]
    mtu: int
    lease_seconds: int
    def __init__(self, address: _Optional[str] = ..., server_mac: _Optional[str] = ..., router: _Optional[str] = ..., is_default: _Optional[bool] = ..., subnet: _Optional[str] = ..., routes: _Optional[_Iterable[str]] = ..., dns: _Optional[_Iterable[str]] = ..., search: _Optional[_Iterable[str]] = ..., mtu: _Optional[int] = ..., lease_seconds: _Optional[int] = ...) -> None: ...

class NodeOptions(_message.Message):
    __slots__ = ("emulation", "smbios_family", "smbios_manufacturer", "smbios_product", "ovmf_path", "start_paused", "smbios_version", "smbios_sku", "keep_free_pages", "balloon_stats_seconds")
    EMULATION_FIELD_NUMBER: _ClassVar[int]
    SMBIOS_FAMILY_FIELD_NUMBER: _ClassVar[int]
    SMBIOS_MANUFACTURER_FIELD_NUMBER: _ClassVar[int]
    SMBIOS_PRODUCT_FIELD_NUMBER: _ClassVar[int]
    OVMF_PATH_FIELD_NUMBER: _ClassVar[int]
    START_PAUSED_FIELD_NUMBER: _ClassVar[int]
    SMBIOS_VERSION_FIELD_NUMBER: _ClassVar[int]
    SMBIOS_SKU_FIELD_NUMBER: _ClassVar[int]
    KEEP_FREE_PAGES_FIELD_NUMBER: _ClassVar[int]
    BALLOON_STATS_SECONDS_FIELD_NUMBER: _ClassVar[int]
    emulation: bool
    smbios_family: str
    smbios_manufacturer: str
    smbios_product: str
    ovmf_path: str
    start_paused: bool
    smbios_version: str
    smbios_sku: str
    keep_free_pages: bool
    balloon_stats_seconds: int
    def __init__(self, emulation: _Optional[bool] = ..., smbios_family: _Optional[str] = ..., smbios_manufacturer: _Optional[str] = ..., smbios_product: _Optional[str] = ..., ovmf_path: _Optional[str] = ..., start_paused: _Optional[bool] = ..., smbios_version: _Optional[str] = ..., smbios_sku: _Optional[str] = ..., keep_free_pages: _Optional[bool] = ..., balloon_stats_seconds: _Optional[int] = ...) -> None: ...

class SyncRequest(_message.Message):
    __slots__ = ("vmi_json", "interfaces", "options", "memory_bytes", "resume")
    VMI_JSON_FIELD_NUMBER: _ClassVar[int]
    INTERFACES_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    vmi_json: bytes
    interfaces: _containers.RepeatedCompositeFieldContainer[GuestInterface]
    options: NodeOptions
    memory_bytes: int
    resume: str
    def __init__(self, vmi_json: _Optional[bytes] = ..., interfaces: _Optional[_Iterable[_Union[GuestInterface, _Mapping]]] = ..., options: _Optional[_Union[NodeOptions, _Mapping]] = ..., memory_bytes: _Optional[int] = ..., resume: _Optional[str] = ...) -> None: ...

class PrepareIncomingRequest(_message.Message):
    __slots__ = ("migration_uid", "guest", "image_bytes", "copied_disk_bytes")
    class ImageBytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class CopiedDiskBytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    IMAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COPIED_DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    guest: SyncRequest
    image_bytes: _containers.ScalarMap[str, int]
    copied_disk_bytes: _containers.ScalarMap[str, int]
    def __init__(self, migration_uid: _Optional[str] = ..., guest: _Optional[_Union[SyncRequest, _Mapping]] = ..., image_bytes: _Optional[_Mapping[str, int]] = ..., copied_disk_bytes: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ReleaseIncomingRequest(_message.Message):
    __slots__ = ("migration_uid", "paused", "disks_only")
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    DISKS_ONLY_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    paused: bool
    disks_only: bool
    def __init__(self, migration_uid: _Optional[str] = ..., paused: _Optional[bool] = ..., disks_only: _Optional[bool] = ...) -> None: ...

class DiscardIncomingRequest(_message.Message):
    __slots__ = ("migration_uid", "if_nothing_came")
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    IF_NOTHING_CAME_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    if_nothing_came: bool
    def __init__(self, migration_uid: _Optional[str] = ..., if_nothing_came: _Optional[bool] = ...) -> None: ...

class MigrateRequest(_message.Message):
    __slots__ = ("migration_uid", "bandwidth_bytes", "connections", "auto_converge", "max_downtime_ms", "unsafe", "copied_volumes", "copied_devices", "source_vmi_uid", "target_vmi_uid")
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    AUTO_CONVERGE_FIELD_NUMBER: _ClassVar[int]
    MAX_DOWNTIME_MS_FIELD_NUMBER: _ClassVar[int]
    UNSAFE_FIELD_NUMBER: _ClassVar[int]
    COPIED_VOLUMES_FIELD_NUMBER: _ClassVar[int]
    COPIED_DEVICES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_VMI_UID_FIELD_NUMBER: _ClassVar[int]
    TARGET_VMI_UID_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    bandwidth_bytes: int
    connections: int
    auto_converge: bool
    max_downtime_ms: int
    unsafe: bool
    copied_volumes: _containers.RepeatedScalarFieldContainer[str]
    copied_devices: _containers.RepeatedScalarFieldContainer[str]
    source_vmi_uid: str
    target_vmi_uid: str
    def __init__(self, migration_uid: _Optional[str] = ..., bandwidth_bytes: _Optional[int] = ..., connections: _Optional[int] = ..., auto_converge: _Optional[bool] = ..., max_downtime_ms: _Optional[int] = ..., unsafe: _Optional[bool] = ..., copied_volumes: _Optional[_Iterable[str]] = ..., copied_devices: _Optional[_Iterable[str]] = ..., source_vmi_uid: _Optional[str] = ..., target_vmi_uid: _Optional[str] = ...) -> None: ...

class AbortMigrationRequest(_message.Message):
    __slots__ = ("migration_uid",)
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    def __init__(self, migration_uid: _Optional[str] = ...) -> None: ...

class HoldMigratingRequest(_message.Message):
    __slots__ = ("migration_uid",)
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    def __init__(self, migration_uid: _Optional[str] = ...) -> None: ...

class OutgoingMigration(_message.Message):
    __slots__ = ("migration_uid", "state", "message", "started_unix_ms", "ended_unix_ms", "total_bytes", "sent_bytes", "left_bytes", "memory_rate_bytes", "downtime_ms", "aborting", "paused", "held")
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    LEFT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_RATE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOWNTIME_MS_FIELD_NUMBER: _ClassVar[int]
    ABORTING_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    state: OutgoingState
    message: str
    started_unix_ms: int
    ended_unix_ms: int
    total_bytes: int
    sent_bytes: int
    left_bytes: int
    memory_rate_bytes: int
    downtime_ms: int
    aborting: bool
    paused: bool
    held: bool
    def __init__(self, migration_uid: _Optional[str] = ..., state: _Optional[_Union[OutgoingState, str]] = ..., message: _Optional[str] = ..., started_unix_ms: _Optional[int] = ..., ended_unix_ms: _Optional[int] = ..., total_bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., left_bytes: _Optional[int] = ..., memory_rate_bytes: _Optional[int] = ..., downtime_ms: _Optional[int] = ..., aborting: _Optional[bool] = ..., paused: _Optional[bool] = ..., held: _Optional[bool] = ...) -> None: ...

class IncomingMigration(_message.Message):
    __slots__ = ("migration_uid", "state", "message")
    MIGRATION_UID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    migration_uid: str
    state: IncomingState
    message: str
    def __init__(self, migration_uid: _Optional[str] = ..., state: _Optional[_Union[IncomingState, str]] = ..., message: _Optional[str] = ...) -> None: ...

class BeginDiskCopyRequest(_message.Message):
    __slots__ = ("id", "disks", "memory", "backup")
    ID_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    id: str
    disks: _containers.RepeatedCompositeFieldContainer[CopiedDisk]
    memory: str
    backup: BackupFiles
    def __init__(self, id: _Optional[str] = ..., disks: _Optional[_Iterable[_Union[CopiedDisk, _Mapping]]] = ..., memory: _Optional[str] = ..., backup: _Optional[_Union[BackupFiles, _Mapping]] = ...) -> None: ...

class BackupFiles(_message.Message):
    __slots__ = ("target", "directory", "name", "checkpoint", "base", "keep", "skip_quiesce", "vm")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    SKIP_QUIESCE_FIELD_NUMBER: _ClassVar[int]
    VM_FIELD_NUMBER: _ClassVar[int]
    target: str
    directory: str
    name: str
    checkpoint: str
    base: str
    keep: _containers.RepeatedScalarFieldContainer[str]
    skip_quiesce: bool
    vm: str
    def __init__(self, target: _Optional[str] = ..., directory: _Optional[str] = ..., name: _Optional[str] = ..., checkpoint: _Optional[str] = ..., base: _Optional[str] = ..., keep: _Optional[_Iterable[str]] = ..., skip_quiesce: _Optional[bool] = ..., vm: _Optional[str] = ...) -> None: ...

class AbortDiskCopyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class CopiedDisk(_message.Message):
    __slots__ = ("volume", "target", "block")
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    volume: str
    target: str
    block: bool
    def __init__(self, volume: _Optional[str] = ..., target: _Optional[str] = ..., block: _Optional[bool] = ...) -> None: ...

class DiskCopyJob(_message.Message):
    __slots__ = ("id", "state", "message", "started_unix_ms", "ended_unix_ms", "percent", "quiesce", "frozen_ms", "stood_ms", "incremental", "full_because")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    PERCENT_FIELD_NUMBER: _ClassVar[int]
    QUIESCE_FIELD_NUMBER: _ClassVar[int]
    FROZEN_MS_FIELD_NUMBER: _ClassVar[int]
    STOOD_MS_FIELD_NUMBER: _ClassVar[int]
    INCREMENTAL_FIELD_NUMBER: _ClassVar[int]
    FULL_BECAUSE_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: DiskCopyState
    message: str
    started_unix_ms: int
    ended_unix_ms: int
    percent: int
    quiesce: str
    frozen_ms: int
    stood_ms: int
    incremental: bool
    full_because: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[DiskCopyState, str]] = ..., message: _Optional[str] = ..., started_unix_ms: _Optional[int] = ..., ended_unix_ms: _Optional[int] = ..., percent: _Optional[int] = ..., quiesce: _Optional[str] = ..., frozen_ms: _Optional[int] = ..., stood_ms: _Optional[int] = ..., incremental: _Optional[bool] = ..., full_because: _Optional[str] = ...) -> None: ...

class DumpMemoryRequest(_message.Message):
    __slots__ = ("id", "volume")
    ID_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    id: str
    volume: str
    def __init__(self, id: _Optional[str] = ..., volume: _Optional[str] = ...) -> None: ...

class MemoryDump(_message.Message):
    __slots__ = ("id", "state", "message")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: MemoryDumpState
    message: str
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[MemoryDumpState, str]] = ..., message: _Optional[str] = ...) -> None: ...

class DiskCopy(_message.Message):
    __slots__ = ("volume", "source_claim", "claim", "place", "block")
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_CLAIM_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    volume: str
    source_claim: str
    claim: str
    place: str
    block: bool
    def __init__(self, volume: _Optional[str] = ..., source_claim: _Optional[str] = ..., claim: _Optional[str] = ..., place: _Optional[str] = ..., block: _Optional[bool] = ...) -> None: ...

class MoveDisksRequest(_message.Message):
    __slots__ = ("move_id", "goal", "disks")
    MOVE_ID_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    move_id: str
    goal: DiskMoveGoal
    disks: _containers.RepeatedCompositeFieldContainer[DiskCopy]
    def __init__(self, move_id: _Optional[str] = ..., goal: _Optional[_Union[DiskMoveGoal, str]] = ..., disks: _Optional[_Iterable[_Union[DiskCopy, _Mapping]]] = ...) -> None: ...

class MovingDisk(_message.Message):
    __slots__ = ("copy", "moved", "total_bytes", "copied_bytes")
    COPY_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    COPIED_BYTES_FIELD_NUMBER: _ClassVar[int]
    copy: DiskCopy
    moved: bool
    total_bytes: int
    copied_bytes: int
    def __init__(self, copy: _Optional[_Union[DiskCopy, _Mapping]] = ..., moved: _Optional[bool] = ..., total_bytes: _Optional[int] = ..., copied_bytes: _Optional[int] = ...) -> None: ...

class DiskMove(_message.Message):
    __slots__ = ("move_id", "state", "message", "disks", "started_unix_ms", "ended_unix_ms", "stands")
    MOVE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    STANDS_FIELD_NUMBER: _ClassVar[int]
    move_id: str
    state: DiskMoveState
    message: str
    disks: _containers.RepeatedCompositeFieldContainer[MovingDisk]
    started_unix_ms: int
    ended_unix_ms: int
    stands: bool
    def __init__(self, move_id: _Optional[str] = ..., state: _Optional[_Union[DiskMoveState, str]] = ..., message: _Optional[str] = ..., disks: _Optional[_Iterable[_Union[MovingDisk, _Mapping]]] = ..., started_unix_ms: _Optional[int] = ..., ended_unix_ms: _Optional[int] = ..., stands: _Optional[bool] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnpauseRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResetRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SoftRebootRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KillRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDomainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchDomainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetGuestInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetMilestonesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetFilesystemsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSevInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLaunchMeasurementRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SevInfo(_message.Message):
    __slots__ = ("pdh", "cert_chain")
    PDH_FIELD_NUMBER: _ClassVar[int]
    CERT_CHAIN_FIELD_NUMBER: _ClassVar[int]
    pdh: str
    cert_chain: str
    def __init__(self, pdh: _Optional[str] = ..., cert_chain: _Optional[str] = ...) -> None: ...

class LaunchMeasurement(_message.Message):
    __slots__ = ("measurement", "api_major", "api_minor", "build_id", "policy", "loader_sha256")
    MEASUREMENT_FIELD_NUMBER: _ClassVar[int]
    API_MAJOR_FIELD_NUMBER: _ClassVar[int]
    API_MINOR_FIELD_NUMBER: _ClassVar[int]
    BUILD_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    LOADER_SHA256_FIELD_NUMBER: _ClassVar[int]
    measurement: str
    api_major: int
    api_minor: int
    build_id: int
    policy: int
    loader_sha256: str
    def __init__(self, measurement: _Optional[str] = ..., api_major: _Optional[int] = ..., api_minor: _Optional[int] = ..., build_id: _Optional[int] = ..., policy: _Optional[int] = ..., loader_sha256: _Optional[str] = ...) -> None: ...

class InjectLaunchSecretRequest(_message.Message):
    __slots__ = ("header", "secret")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    header: str
    secret: str
    def __init__(self, header: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class UnfreezeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FreezeRequest(_message.Message):
    __slots__ = ("unfreeze_seconds",)
    UNFREEZE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    unfreeze_seconds: int
    def __init__(self, unfreeze_seconds: _Optional[int] = ...) -> None: ...

class GuestPingRequest(_message.Message):
    __slots__ = ("timeout_seconds",)
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    timeout_seconds: int
    def __init__(self, timeout_seconds: _Optional[int] = ...) -> None: ...

class GuestPingReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GuestExecRequest(_message.Message):
    __slots__ = ("command", "arguments", "timeout_seconds")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    command: str
    arguments: _containers.RepeatedScalarFieldContainer[str]
    timeout_seconds: int
    def __init__(self, command: _Optional[str] = ..., arguments: _Optional[_Iterable[str]] = ..., timeout_seconds: _Optional[int] = ...) -> None: ...

class GuestExecReply(_message.Message):
    __slots__ = ("exit_code", "output")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    output: str
    def __init__(self, exit_code: _Optional[int] = ..., output: _Optional[str] = ...) -> None: ...

class ScreenshotRequest(_message.Message):
    __slots__ = ("move_cursor",)
    MOVE_CURSOR_FIELD_NUMBER: _ClassVar[int]
    move_cursor: bool
    def __init__(self, move_cursor: _Optional[bool] = ...) -> None: ...

class ScreenshotChunk(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class DescribeDomainRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DomainDescription(_message.Message):
    __slots__ = ("name", "uuid", "id", "state", "reason", "document", "vcpus", "addresses", "libvirt_version", "qemu_version", "host_cpus")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LIBVIRT_VERSION_FIELD_NUMBER: _ClassVar[int]
    QEMU_VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_CPUS_FIELD_NUMBER: _ClassVar[int]
    name: str
    uuid: str
    id: int
    state: str
    reason: str
    document: str
    vcpus: _containers.RepeatedCompositeFieldContainer[VcpuPlace]
    addresses: _containers.RepeatedCompositeFieldContainer[GuestAddress]
    libvirt_version: int
    qemu_version: int
    host_cpus: int
    def __init__(self, name: _Optional[str] = ..., uuid: _Optional[str] = ..., id: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., document: _Optional[str] = ..., vcpus: _Optional[_Iterable[_Union[VcpuPlace, _Mapping]]] = ..., addresses: _Optional[_Iterable[_Union[GuestAddress, _Mapping]]] = ..., libvirt_version: _Optional[int] = ..., qemu_version: _Optional[int] = ..., host_cpus: _Optional[int] = ...) -> None: ...

class VcpuPlace(_message.Message):
    __slots__ = ("number", "waits", "host_cpu", "run_ns", "may_use")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    HOST_CPU_FIELD_NUMBER: _ClassVar[int]
    RUN_NS_FIELD_NUMBER: _ClassVar[int]
    MAY_USE_FIELD_NUMBER: _ClassVar[int]
    number: int
    waits: bool
    host_cpu: int
    run_ns: int
    may_use: str
    def __init__(self, number: _Optional[int] = ..., waits: _Optional[bool] = ..., host_cpu: _Optional[int] = ..., run_ns: _Optional[int] = ..., may_use: _Optional[str] = ...) -> None: ...

class DomainStatus(_message.Message):
    __slots__ = ("sequence", "uuid", "state", "reason", "message", "addresses", "agent_connected", "qemu_pid", "machine_type", "disks", "started_unix_ms", "guest", "fs_freeze_status", "agent_trouble", "agent_lacks", "disk_troubles", "small_disks", "nics", "follows_nics", "nic_troubles", "ungrown_disks", "outgoing", "incoming", "migrates", "disk_copy", "copies_disks", "copies_state", "backs_up", "memory_dump", "disk_move", "moves_disks", "moves_to_devices", "moves_functions", "vcpus", "cpu_trouble", "memory_boot_bytes", "memory_requested_bytes", "memory_bytes", "memory_trouble", "saves_memory", "disk_errors", "failed_pings", "lost_filesystems", "access_credentials")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    AGENT_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    QEMU_PID_FIELD_NUMBER: _ClassVar[int]
    MACHINE_TYPE_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    STARTED_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    GUEST_FIELD_NUMBER: _ClassVar[int]
    FS_FREEZE_STATUS_FIELD_NUMBER: _ClassVar[int]
    AGENT_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    AGENT_LACKS_FIELD_NUMBER: _ClassVar[int]
    DISK_TROUBLES_FIELD_NUMBER: _ClassVar[int]
    SMALL_DISKS_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_NICS_FIELD_NUMBER: _ClassVar[int]
    NIC_TROUBLES_FIELD_NUMBER: _ClassVar[int]
    UNGROWN_DISKS_FIELD_NUMBER: _ClassVar[int]
    OUTGOING_FIELD_NUMBER: _ClassVar[int]
    INCOMING_FIELD_NUMBER: _ClassVar[int]
    MIGRATES_FIELD_NUMBER: _ClassVar[int]
    DISK_COPY_FIELD_NUMBER: _ClassVar[int]
    COPIES_DISKS_FIELD_NUMBER: _ClassVar[int]
    COPIES_STATE_FIELD_NUMBER: _ClassVar[int]
    BACKS_UP_FIELD_NUMBER: _ClassVar[int]
    MEMORY_DUMP_FIELD_NUMBER: _ClassVar[int]
    DISK_MOVE_FIELD_NUMBER: _ClassVar[int]
    MOVES_DISKS_FIELD_NUMBER: _ClassVar[int]
    MOVES_TO_DEVICES_FIELD_NUMBER: _ClassVar[int]
    MOVES_FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    CPU_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BOOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_REQUESTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    SAVES_MEMORY_FIELD_NUMBER: _ClassVar[int]
    DISK_ERRORS_FIELD_NUMBER: _ClassVar[int]
    FAILED_PINGS_FIELD_NUMBER: _ClassVar[int]
    LOST_FILESYSTEMS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    uuid: str
    state: DomainState
    reason: DomainReason
    message: str
    addresses: _containers.RepeatedCompositeFieldContainer[GuestAddress]
    agent_connected: bool
    qemu_pid: int
    machine_type: str
    disks: _containers.RepeatedCompositeFieldContainer[DiskTarget]
    started_unix_ms: int
    guest: GuestInfo
    fs_freeze_status: str
    agent_trouble: str
    agent_lacks: _containers.RepeatedScalarFieldContainer[str]
    disk_troubles: _containers.RepeatedCompositeFieldContainer[DiskTrouble]
    small_disks: _containers.RepeatedScalarFieldContainer[str]
    nics: _containers.RepeatedCompositeFieldContainer[DomainNic]
    follows_nics: bool
    nic_troubles: _containers.RepeatedCompositeFieldContainer[NicTrouble]
    ungrown_disks: _containers.RepeatedScalarFieldContainer[str]
    outgoing: OutgoingMigration
    incoming: IncomingMigration
    migrates: bool
    disk_copy: DiskCopyJob
    copies_disks: bool
    copies_state: bool
    backs_up: bool
    memory_dump: MemoryDump
    disk_move: DiskMove
    moves_disks: bool
    moves_to_devices: bool
    moves_functions: bool
    vcpus: int
    cpu_trouble: str
    memory_boot_bytes: int
    memory_requested_bytes: int
    memory_bytes: int
    memory_trouble: str
    saves_memory: bool
    disk_errors: _containers.RepeatedCompositeFieldContainer[DiskError]
    failed_pings: int
    lost_filesystems: _containers.RepeatedScalarFieldContainer[str]
    access_credentials: AccessCredentials
    def __init__(self, sequence: _Optional[int] = ..., uuid: _Optional[str] = ..., state: _Optional[_Union[DomainState, str]] = ..., reason: _Optional[_Union[DomainReason, str]] = ..., message: _Optional[str] = ..., addresses: _Optional[_Iterable[_Union[GuestAddress, _Mapping]]] = ..., agent_connected: _Optional[bool] = ..., qemu_pid: _Optional[int] = ..., machine_type: _Optional[str] = ..., disks: _Optional[_Iterable[_Union[DiskTarget, _Mapping]]] = ..., started_unix_ms: _Optional[int] = ..., guest: _Optional[_Union[GuestInfo, _Mapping]] = ..., fs_freeze_status: _Optional[str] = ..., agent_trouble: _Optional[str] = ..., agent_lacks: _Optional[_Iterable[str]] = ..., disk_troubles: _Optional[_Iterable[_Union[DiskTrouble, _Mapping]]] = ..., small_disks: _Optional[_Iterable[str]] = ..., nics: _Optional[_Iterable[_Union[DomainNic, _Mapping]]] = ..., follows_nics: _Optional[bool] = ..., nic_troubles: _Optional[_Iterable[_Union[NicTrouble, _Mapping]]] = ..., ungrown_disks: _Optional[_Iterable[str]] = ..., outgoing: _Optional[_Union[OutgoingMigration, _Mapping]] = ..., incoming: _Optional[_Union[IncomingMigration, _Mapping]] = ..., migrates: _Optional[bool] = ..., disk_copy: _Optional[_Union[DiskCopyJob, _Mapping]] = ..., copies_disks: _Optional[bool] = ..., copies_state: _Optional[bool] = ..., backs_up: _Optional[bool] = ..., memory_dump: _Optional[_Union[MemoryDump, _Mapping]] = ..., disk_move: _Optional[_Union[DiskMove, _Mapping]] = ..., moves_disks: _Optional[bool] = ..., moves_to_devices: _Optional[bool] = ..., moves_functions: _Optional[bool] = ..., vcpus: _Optional[int] = ..., cpu_trouble: _Optional[str] = ..., memory_boot_bytes: _Optional[int] = ..., memory_requested_bytes: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_trouble: _Optional[str] = ..., saves_memory: _Optional[bool] = ..., disk_errors: _Optional[_Iterable[_Union[DiskError, _Mapping]]] = ..., failed_pings: _Optional[int] = ..., lost_filesystems: _Optional[_Iterable[str]] = ..., access_credentials: _Optional[_Union[AccessCredentials, _Mapping]] = ...) -> None: ...

class AccessCredentials(_message.Message):
    __slots__ = ("synchronized", "message")
    SYNCHRONIZED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    synchronized: bool
    message: str
    def __init__(self, synchronized: _Optional[bool] = ..., message: _Optional[str] = ...) -> None: ...

class DiskError(_message.Message):
    __slots__ = ("name", "no_space")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NO_SPACE_FIELD_NUMBER: _ClassVar[int]
    name: str
    no_space: bool
    def __init__(self, name: _Optional[str] = ..., no_space: _Optional[bool] = ...) -> None: ...

class DomainNic(_message.Message):
    __slots__ = ("name", "mac", "tap", "down", "queues")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    TAP_FIELD_NUMBER: _ClassVar[int]
    DOWN_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    mac: str
    tap: str
    down: bool
    queues: int
    def __init__(self, name: _Optional[str] = ..., mac: _Optional[str] = ..., tap: _Optional[str] = ..., down: _Optional[bool] = ..., queues: _Optional[int] = ...) -> None: ...

class NicTrouble(_message.Message):
    __slots__ = ("name", "action", "message", "tries", "since_unix_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: NicAction
    message: str
    tries: int
    since_unix_ms: int
    def __init__(self, name: _Optional[str] = ..., action: _Optional[_Union[NicAction, str]] = ..., message: _Optional[str] = ..., tries: _Optional[int] = ..., since_unix_ms: _Optional[int] = ...) -> None: ...

class GuestAddress(_message.Message):
    __slots__ = ("interface", "mac", "guest_name", "addresses", "source")
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    GUEST_NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    interface: str
    mac: str
    guest_name: str
    addresses: _containers.RepeatedScalarFieldContainer[str]
    source: str
    def __init__(self, interface: _Optional[str] = ..., mac: _Optional[str] = ..., guest_name: _Optional[str] = ..., addresses: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ...) -> None: ...

class DiskTarget(_message.Message):
    __slots__ = ("name", "target", "empty", "place", "image_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    target: str
    empty: bool
    place: str
    image_bytes: int
    def __init__(self, name: _Optional[str] = ..., target: _Optional[str] = ..., empty: _Optional[bool] = ..., place: _Optional[str] = ..., image_bytes: _Optional[int] = ...) -> None: ...

class DiskTrouble(_message.Message):
    __slots__ = ("name", "action", "message", "tries", "since_unix_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    SINCE_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    name: str
    action: DiskAction
    message: str
    tries: int
    since_unix_ms: int
    def __init__(self, name: _Optional[str] = ..., action: _Optional[_Union[DiskAction, str]] = ..., message: _Optional[str] = ..., tries: _Optional[int] = ..., since_unix_ms: _Optional[int] = ...) -> None: ...

class GuestInfo(_message.Message):
    __slots__ = ("hostname", "os_name", "os_id", "os_version", "os_version_id", "os_pretty_name", "kernel_release", "kernel_version", "machine", "timezone", "agent_version", "commands", "users", "filesystems", "fs_freeze_status")
    HOSTNAME_FIELD_NUMBER: _ClassVar[int]
    OS_NAME_FIELD_NUMBER: _ClassVar[int]
    OS_ID_FIELD_NUMBER: _ClassVar[int]
    OS_VERSION_FIELD_NUMBER: _ClassVar[int]
    OS_VERSION_ID_FIELD_NUMBER: _ClassVar[int]
    OS_PRETTY_NAME_FIELD_NUMBER: _ClassVar[int]
    KERNEL_RELEASE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_VERSION_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    TIMEZONE_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMANDS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    FILESYSTEMS_FIELD_NUMBER: _ClassVar[int]
    FS_FREEZE_STATUS_FIELD_NUMBER: _ClassVar[int]
    hostname: str
    os_name: str
    os_id: str
    os_version: str
    os_version_id: str
    os_pretty_name: str
    kernel_release: str
    kernel_version: str
    machine: str
    timezone: str
    agent_version: str
    commands: _containers.RepeatedCompositeFieldContainer[AgentCommand]
    users: _containers.RepeatedCompositeFieldContainer[GuestUser]
    filesystems: _containers.RepeatedCompositeFieldContainer[GuestFilesystem]
    fs_freeze_status: str
    def __init__(self, hostname: _Optional[str] = ..., os_name: _Optional[str] = ..., os_id: _Optional[str] = ..., os_version: _Optional[str] = ..., os_version_id: _Optional[str] = ..., os_pretty_name: _Optional[str] = ..., kernel_release: _Optional[str] = ..., kernel_version: _Optional[str] = ..., machine: _Optional[str] = ..., timezone: _Optional[str] = ..., agent_version: _Optional[str] = ..., commands: _Optional[_Iterable[_Union[AgentCommand, _Mapping]]] = ..., users: _Optional[_Iterable[_Union[GuestUser, _Mapping]]] = ..., filesystems: _Optional[_Iterable[_Union[GuestFilesystem, _Mapping]]] = ..., fs_freeze_status: _Optional[str] = ...) -> None: ...

class Milestones(_message.Message):
    __slots__ = ("unix_ms",)
    class UnixMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    unix_ms: _containers.ScalarMap[str, int]
    def __init__(self, unix_ms: _Optional[_Mapping[str, int]] = ...) -> None: ...

class AgentCommand(_message.Message):
    __slots__ = ("name", "enabled")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    name: str
    enabled: bool
    def __init__(self, name: _Optional[str] = ..., enabled: _Optional[bool] = ...) -> None: ...

class GuestUsers(_message.Message):
    __slots__ = ("users",)
    USERS_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[GuestUser]
    def __init__(self, users: _Optional[_Iterable[_Union[GuestUser, _Mapping]]] = ...) -> None: ...

class GuestUser(_message.Message):
    __slots__ = ("name", "domain", "login_unix_seconds")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    LOGIN_UNIX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    domain: str
    login_unix_seconds: float
    def __init__(self, name: _Optional[str] = ..., domain: _Optional[str] = ..., login_unix_seconds: _Optional[float] = ...) -> None: ...

class GuestFilesystems(_message.Message):
    __slots__ = ("filesystems",)
    FILESYSTEMS_FIELD_NUMBER: _ClassVar[int]
    filesystems: _containers.RepeatedCompositeFieldContainer[GuestFilesystem]
    def __init__(self, filesystems: _Optional[_Iterable[_Union[GuestFilesystem, _Mapping]]] = ...) -> None: ...

class GuestFilesystem(_message.Message):
    __slots__ = ("disk_name", "mount_point", "type", "used_bytes", "total_bytes", "disks")
    DISK_NAME_FIELD_NUMBER: _ClassVar[int]
    MOUNT_POINT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    disk_name: str
    mount_point: str
    type: str
    used_bytes: int
    total_bytes: int
    disks: _containers.RepeatedCompositeFieldContainer[GuestDisk]
    def __init__(self, disk_name: _Optional[str] = ..., mount_point: _Optional[str] = ..., type: _Optional[str] = ..., used_bytes: _Optional[int] = ..., total_bytes: _Optional[int] = ..., disks: _Optional[_Iterable[_Union[GuestDisk, _Mapping]]] = ...) -> None: ...

class GuestDisk(_message.Message):
    __slots__ = ("serial", "bus_type")
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    BUS_TYPE_FIELD_NUMBER: _ClassVar[int]
    serial: str
    bus_type: str
    def __init__(self, serial: _Optional[str] = ..., bus_type: _Optional[str] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ("dirty_rate",)
    DIRTY_RATE_FIELD_NUMBER: _ClassVar[int]
    dirty_rate: bool
    def __init__(self, dirty_rate: _Optional[bool] = ...) -> None: ...

class DomainStats(_message.Message):
    __slots__ = ("complete", "figures", "vcpus", "disks", "nics", "filesystems")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    VCPUS_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    FILESYSTEMS_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    figures: _containers.ScalarMap[str, int]
    vcpus: _containers.RepeatedCompositeFieldContainer[StatsPart]
    disks: _containers.RepeatedCompositeFieldContainer[StatsPart]
    nics: _containers.RepeatedCompositeFieldContainer[StatsPart]
    filesystems: _containers.RepeatedCompositeFieldContainer[GuestFilesystem]
    def __init__(self, complete: _Optional[bool] = ..., figures: _Optional[_Mapping[str, int]] = ..., vcpus: _Optional[_Iterable[_Union[StatsPart, _Mapping]]] = ..., disks: _Optional[_Iterable[_Union[StatsPart, _Mapping]]] = ..., nics: _Optional[_Iterable[_Union[StatsPart, _Mapping]]] = ..., filesystems: _Optional[_Iterable[_Union[GuestFilesystem, _Mapping]]] = ...) -> None: ...

class StatsPart(_message.Message):
    __slots__ = ("name", "state", "figures")
    class FiguresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    figures: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ..., figures: _Optional[_Mapping[str, int]] = ...) -> None: ...

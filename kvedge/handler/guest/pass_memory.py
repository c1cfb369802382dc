"""What one pass over a VMI leaves for the next.

Used by the sync loop and its parts, one pass over a VMI at a time. After a restart of the handler it is found again, or
begins anew.
"""

from __future__ import annotations

import threading

from msgspec import Struct, field

from kvedge.handler.guest.guest_network import Resolver
from kvedge.handler.guest.nic_plan import ToldNics
from kvedge.handler.guest.told_claims import ToldClaims
from kvedge.handler.guest.vmi_status import GuestNic, SyncFailure
from kvedge.handler.launchers.launcher_connections import Key
from kvedge.network.insight.cut_off import NicSeen
from kvedge.resources.types.vmi import VirtualMachineInstance


class PassMemory(Struct):
    """The memory of one VMI; times are on the monotonic clock."""

    uid: str
    began: float
    nics: tuple[GuestNic, ...] | None = None
    # The NICs of the last Sync; and the absent ones of which nothing is left.
    told_nics: ToldNics | None = None
    released: frozenset[str] = frozenset()
    # Whether the handler joins the Pod to networks while it runs.
    joins: bool = False
    # The name servers of the last Sync, and the time of the last comparison; None asks for another Sync.
    resolver: Resolver | None = None
    resolver_seen: float = 0.0
    # The vCPUs and the bytes of memory of the last Sync.
    vcpus: int = 0
    guest_bytes: int = 0
    # The claims of the last Sync.
    claims: ToldClaims = ()
    failure: SyncFailure | None = None
    # The Pod's NICs on other networks: of which the ends on the node were looked up, what was seen of them and when,
    # and what the user is told of them.
    lan_nics: frozenset[str] = frozenset()
    lan_ends: dict[str, int] = field(default_factory=dict)
    lan_seen: dict[str, NicSeen] = field(default_factory=dict)
    lan_seen_at: float = float("-inf")
    cut_off: tuple[str, ...] = ()
    # Of NICs that could not be prepared although the guest has them.
    lost: tuple[str, ...] = ()
    # The hotplugged volumes of the last Sync; and since when the guest waits for them.
    wishes: frozenset[tuple[str, ...]] | None = None
    waits_since: float | None = None
    troubles: set[str] = field(default_factory=set)
    # The disks for which the guest is paused, as the user was told.
    disk_errors: frozenset[str] = frozenset()
    # How many failed pings of the guest's agent the user was told of.
    failed_pings: int = 0
    panic_noted: bool = False
    started_told: bool = False
    shutdown_told: bool = False
    # When the guest could first be asked to end.
    ending_since: float | None = None


class PassMemories:
    """The memories of all VMIs of this node; threads may share it."""

    def __init__(self) -> None:
        """None yet."""
        self._memories: dict[Key, PassMemory] = {}
        self._lock = threading.Lock()

    def find_memory(self, key: Key, vmi: VirtualMachineInstance, now: float) -> PassMemory:
        """The memory of this VMI; a new one for a VMI that took the name of another."""
        with self._lock:
            memory = self._memories.get(key)
            if memory is None or memory.uid != vmi.metadata.uid:
                memory = PassMemory(vmi.metadata.uid, now, started_told=vmi.status.phase == "Running")
                self._memories[key] = memory
            return memory

    def drop(self, key: Key) -> PassMemory | None:
        """Forget a VMI, and return what was remembered of it."""
        with self._lock:
            return self._memories.pop(key, None)

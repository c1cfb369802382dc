"""The NetworkPolicies of one box in the kernel: puts them there, and puts them back when others undo it.

Called as root on the host, by the networking service's loop. Touches nftables tables of its own, which are there only
while there are policies, and are changed in one transaction; decides by `policy_plan`. A process that starts anew finds
the tables of the one before, which filter until they are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvedge.network.apply_step import apply_step
from kvedge.network.errors import NotSupportedError
from kvedge.network.links import Links
from kvedge.network.nft.nft_edge import delete_tables, is_whole, table_handle
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.policies.policy_plan import Enforced, plan_change, plan_enforcing, policy_tables
from kvedge.network.policies.policy_rules import PodTraffic
from kvedge.network.steps import ReplaceTables

_Handles = tuple[int | None, ...]


class PolicyNetwork:
    """One box's policies; used by one thread at a time."""

    def __init__(self, config: NodeNetworkConfig) -> None:
        self._tables = policy_tables(config)
        self._ipv6 = bool(config.ipv6_cidr)
        # The elements that this process has put into each table; tables that were made anew since have other handles.
        self._put: tuple[_Handles, Enforced] | None = None

    def apply(self, pods: Iterable[PodTraffic]) -> bool:
        """Enforce the policies for all Pods there are; whether anything had to be changed.

        A Pod that is not among them reaches nothing, and is reached by the host alone. May be repeated at any time.

        Raises:
            NetworkError: nothing was changed.
        """
        handles = self._handles()
        present = self._put[1] if self._put is not None and self._put[0] == handles and self._is_whole() else None
        wanted = plan_enforcing(pods, present.numbers if present is not None else {}, ipv6=self._ipv6)
        whole = ReplaceTables(
            tuple(
                (table, {name: tuple(keys) for name, keys in each.items()})
                for table, each in zip(self._tables, wanted.contents, strict=True)
            )
        )
        step = plan_change(self._tables, present, wanted) if present is not None else whole
        if step is None:
            return False
        # Until it is done, nobody knows what is there.
        self._put = None
        with Links() as links:
            apply_step(links, step)
        self._put = (self._handles(), wanted)
        return True

    def is_there(self) -> bool:
        """Whether the tables are there, of this process or of one before.

        Raises:
            NetworkError: when the kernel cannot be asked.
        """
        return all(self._handles())

    def remove(self) -> bool:
        """Everything passes; whether anything had to be removed.

        Raises:
            NetworkError: nothing was changed.
        """
        self._put = None
        try:
            if not any(self._handles()):
                return False
        except NotSupportedError:
            # A kernel without nftables has no table of ours.
            return False
        delete_tables(self._tables)
        return True

    def _handles(self) -> _Handles:
        return tuple(table_handle(table.family, table.name) for table in self._tables)

    def _is_whole(self) -> bool:
        return all(is_whole(table) for table in self._tables)

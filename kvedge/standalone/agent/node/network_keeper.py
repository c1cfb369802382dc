"""Makes the node network, and puts back what others undo of it: a firewall that is loaded anew, `sysctl --system`.

Started by the node agent. One named thread that looks twice a minute, and changes only what is missing. It looks at
foreign filters as well, so that the Node says what blocks the guests' way now, not what did at the start.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_ports import LanHealth, heal_lan
from kvedge.network.nics.nic_replay import NicHealth, replay_nics
from kvedge.network.pods.attachments import NodeNetworkConfig
from kvedge.network.pods.forward_rules import FENCE
from kvedge.network.pods.pod_network import NodeNetwork, ensure_node_network, heal_node_network
from kvedge.runtime.rounds import Rounds

log = logging.getLogger(__name__)

_PERIOD: Final = 30.0
# A condition's message is short.
_MOST_NAMES: Final = 4


class NetworkKeeper:
    """Keeps one node network, and the bridges of NICs of which there are records in the directory `nics`."""

    def __init__(self, config: NodeNetworkConfig, nics: Path | None = None) -> None:
        self._config = config
        self._nics = nics
        self._nic_troubles: tuple[str, ...] = ()
        self._blockers: tuple[str, ...] = ()
        self._overlaps: tuple[str, ...] = ()
        self._apart: tuple[str, ...] = ()
        self._lan = LanHealth((), ())
        # What went wrong at the last look: said once, not twice a minute.
        self._error = ""
        self.rounds = Rounds("network-keeper", "looks after the node's network", _PERIOD, self.look)

    def make(self) -> None:
        """Make the network, whatever is there of it.

        Raises:
            NetworkError: when it cannot be made.
        """
        # First the links that the host itself is on.
        self._look_after_nics()
        network = ensure_node_network(self._config)
        self._config = replace(
            self._config, limits_flows=network.limits_flows, limits_questions=network.limits_questions
        )
        self._take(network)

    def notes(self) -> list[str]:
        """What keeps guests from the outside, and what else of this host's network is not as its owner may think."""
        bridge = self._config.bridge
        notes = [f"{name} drops what guests send to the outside: allow {bridge} there" for name in self._blockers]
        if self._apart:
            links = ", ".join(self._apart[:_MOST_NAMES])
            notes.append(
                f"ip_forward is on for VMs only, and table ip {FENCE} drops what would pass between other links "
                f"({links}): a router sets net.ipv4.ip_forward=1 in /etc/sysctl.d and is started anew"
            )
        if not self._config.limits_flows:
            notes.append(
                "this kernel lacks NFT_CONNLIMIT: nothing keeps a guest from filling the host's table of connections"
            )
        if not self._config.limits_questions:
            notes.append("this kernel lacks NFT_LIMIT: a guest's questions for names may crowd out its neighbours'")
        filtered = ", ".join(self._lan.filtered[:_MOST_NAMES])
        if filtered:
            # Others' tables see bridged frames too, as packets from a bridge to itself.
            notes += [f"{name} drops what guests send on {filtered}: allow that there" for name in self._blockers]
        return [*notes, *self._nic_troubles[:_MOST_NAMES], *self._lan.troubles[:_MOST_NAMES]]

    def look(self) -> None:
        """Put back what is missing, and say so."""
        self._look_after_nics()
        try:
            network, lan = heal_node_network(self._config), heal_lan(self._config)
        except NetworkError as error:
            if str(error) != self._error:
                log.warning("the node's network cannot be put right", extra={"facts": {"error": str(error)}})
            self._error = str(error)
            return
        self._error = ""
        if network.healed or lan.healed:
            facts = {"undone": "; ".join((*network.healed, *lan.healed))}
            log.warning("the node's network was changed by others and is put right", extra={"facts": facts})
        for trouble in set(lan.troubles) - set(self._lan.troubles):
            log.warning("guests are cut off from a network", extra={"facts": {"trouble": trouble}})
        self._lan = lan
        self._take(network)

    def _look_after_nics(self) -> None:
        found = replay_nics(self._nics) if self._nics is not None else NicHealth()
        if found.healed:
            log.warning("a NIC was put right", extra={"facts": {"undone": "; ".join(found.healed)}})
        for trouble in set(found.troubles) - set(self._nic_troubles):
            log.warning("a NIC cannot be put right", extra={"facts": {"trouble": trouble}})
        self._nic_troubles = found.troubles

    def _take(self, network: NodeNetwork) -> None:
        for name in set(network.blockers) - set(self._blockers):
            facts = {"filter": name, "allow": network.bridge}
            log.warning("a filter drops what guests send to the outside", extra={"facts": facts})
        for overlap in set(network.overlaps) - set(self._overlaps):
            log.warning("the VMs' addresses are in use elsewhere too", extra={"facts": {"overlap": overlap}})
        self._blockers, self._overlaps, self._apart = network.blockers, network.overlaps, network.apart

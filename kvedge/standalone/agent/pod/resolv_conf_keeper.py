"""Keeps the Pods' resolv.conf at what the host's says: a box may boot long before its network is there.

Started by the node agent. One named thread that compares now and then; on a Kubernetes node these files are the
kubelet's. What guests are told of them is the handler's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kvedge.network.host_resolver import host_resolv_conf
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.place.resolv_conf import pod_resolv_conf, refresh_resolv_conf

log = logging.getLogger(__name__)

# Looked at rather than watched: the file is a link on many hosts, and is replaced, or mounted over, by its owner.
_PERIOD: Final = 30.0


class ResolvConfKeeper:
    """Brings the files of all Pods of this node up to date."""

    def __init__(self, pods: LocalPods, read_host: Callable[[], str] = host_resolv_conf, own_server: str = "") -> None:
        self._pods = pods
        self._read_host = read_host
        self._own_server = own_server
        # At once: the host's may have changed while no agent was there.
        self.rounds = Rounds("resolv-conf-keeper", "keeps the Pods' name servers", _PERIOD, self.look, at_once=True)

    def look(self) -> None:
        """Look at every Pod's file once."""
        host = self._read_host()
        for uid in self._pods.uids():
            self.rounds.beat()
            self._look_at(uid, host)

    def _look_at(self, uid: str, host: str) -> None:
        local = self._pods.get(uid)
        if local is None:
            return
        try:
            changed = refresh_resolv_conf(local.files.resolv, pod_resolv_conf(local.pod, host, self._own_server))
        except FileNotFoundError:
            # Its place is not made yet, or no more.
            return
        except OSError as error:
            facts = {"pod": str(local.key), "error": error.strerror}
            log.warning("a pod's name servers cannot be kept up to date", extra={"facts": facts})
            return
        if changed:
            log.info("a pod has other name servers", extra={"facts": {"pod": str(local.key)}})

"""Keeps Secrets and ConfigMaps in running Pods at what the API has, as a kubelet does.

Started by the node agent. One named thread that compares now and then. A launcher brings passwords and keys into its
guest from such files.
"""

from __future__ import annotations

import logging
from typing import Final

from kvedge.kube.errors import KubeError
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.place.volume_files import ObjectReader
from kvedge.standalone.agent.pod.place.volume_refresh import refresh_volumes

log = logging.getLogger(__name__)

# A kubelet takes a minute to a minute and a half.
_PERIOD: Final = 30.0


class VolumeKeeper:
    """Brings such volumes of all Pods of this node up to date."""

    def __init__(self, pods: LocalPods, reader: ObjectReader) -> None:
        self._pods = pods
        self._reader = reader
        self.rounds = Rounds("volume-keeper", "keeps Secrets and ConfigMaps in Pods up to date", _PERIOD, self.look)

    def look(self) -> None:
        """Look at every Pod's volumes once."""
        for uid in self._pods.uids():
            self.rounds.beat()
            self._look_at(uid)

    def _look_at(self, uid: str) -> None:
        local = self._pods.get(uid)
        if local is None or local.released or local.stop_asked_at is not None:
            return
        try:
            changed = refresh_volumes(local.pod, local.files, self._reader)
        except FileNotFoundError:
            # The Pod goes just now.
            return
        except (OSError, KubeError) as error:
            log.warning(
                "a pod's volumes are looked at again", extra={"facts": {"pod": str(local.key), "why": str(error)}}
            )
            return
        if changed:
            log.info("a pod's volumes have changed", extra={"facts": {"pod": str(local.key), "volumes": changed}})

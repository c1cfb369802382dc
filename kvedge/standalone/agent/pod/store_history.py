"""Whether a Pod that the object store does not have was deleted, or is forgotten.

Forgotten is what was made after the state to which the store was put back, or in a store in whose place there is a new
one. Called by the Pod loop: nobody wanted it to end, so it gets its whole grace period, and its data is kept.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.object_cache import version_number
from kvedge.resources.types.core import Namespace, Pod
from kvedge.standalone.agent.pod.pod_record import PodRecord
from kvedge.standalone.apiserver.store.object_store_copies import REVISION_GAP

# A store that was put back counts on from so far ahead that no number of writes comes near it.
_JUMP: Final = REVISION_GAP // 2


class StoreSeen(Struct, frozen=True):
    """An object store: the UID of its namespace kube-system, which each store makes once and keeps in all its copies,
    and the revision that it has reached."""

    uid: str
    revision: int


def is_forgotten(known: StoreSeen, present: StoreSeen) -> bool:
    """Whether the present store may have forgotten what was in it when it was `known`; an empty UID is not known."""
    if known.uid and known.uid != present.uid:
        return True
    return not 0 <= present.revision - known.revision < _JUMP


class StoreHistory(Struct):
    """Compares the store that Pods were last seen in with the present one."""

    client: KubeClient
    pods: Informer[Pod]
    # Of the present store; read anew whenever a Pod is missing.
    uid: str = ""

    def note(self, record: PodRecord) -> bool:
        """Note in the record of a Pod that the store has which store that is; whether that was news.

        Raises:
            KubeError: when the API cannot be asked.
        """
        if not self.uid:
            self._read()
        known, present = _store_of(record), StoreSeen(self.uid, self.pods.version)
        if record.store and not record.forgotten and not is_forgotten(known, present):
            return False
        record.store, record.store_revision, record.forgotten = present.uid, present.revision, False
        return True

    def has_forgotten(self, record: PodRecord) -> bool:
        """Whether a Pod that is missing was not deleted.

        Raises:
            KubeError: when the API cannot be asked.
        """
        self._read()
        return is_forgotten(_store_of(record), StoreSeen(self.uid, self.pods.version))

    def _read(self) -> None:
        self.uid = self.client.get(Namespace, "", "kube-system").metadata.uid


def _store_of(record: PodRecord) -> StoreSeen:
    # Records of earlier versions have no more than the Pod.
    taken_on = version_number(str(record.pod.get("metadata", {}).get("resourceVersion", "")))
    return StoreSeen(record.store, record.store_revision or taken_on)

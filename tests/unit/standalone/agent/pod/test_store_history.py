from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Namespace, Pod
from kvedge.standalone.agent.pod.pod_record import PodRecord, new_record
from kvedge.standalone.agent.pod.store_history import StoreHistory, StoreSeen, is_forgotten
from kvedge.standalone.apiserver.store.object_store_copies import REVISION_GAP
from tests.support.builders import plain_pod as pod


@pytest.mark.parametrize(
    ("known", "present", "forgotten"),
    [
        pytest.param(StoreSeen("a", 70), StoreSeen("a", 71), False, id="deleted"),
        pytest.param(StoreSeen("a", 70), StoreSeen("a", 9_000_000), False, id="deleted long after"),
        pytest.param(StoreSeen("a", 70), StoreSeen("a", 60 + REVISION_GAP), True, id="put back to before it"),
        pytest.param(StoreSeen("a", 70), StoreSeen("a", 60), True, id="put back by other hands"),
        pytest.param(StoreSeen("a", 70), StoreSeen("b", 71), True, id="in a new store that has counted as far"),
        pytest.param(StoreSeen("", 70), StoreSeen("b", 71), False, id="of an earlier version, deleted"),
        pytest.param(StoreSeen("", 70), StoreSeen("b", 60), True, id="of an earlier version, in a new store"),
    ],
)
def test_a_pod_is_forgotten_when_its_store_went_back_or_is_another(
    known: StoreSeen, present: StoreSeen, forgotten: bool
) -> None:
    assert is_forgotten(known, present) is forgotten


@given(st.integers(1, 1 << 40), st.integers(0, 1_000_000), st.integers(1, 9))
def test_no_number_of_puttings_back_makes_a_forgotten_pod_a_deleted_one(revision: int, since: int, times: int) -> None:
    store = StoreSeen("a", revision)
    assert is_forgotten(store, StoreSeen("a", max(0, revision - since) + times * REVISION_GAP))
    assert not is_forgotten(store, StoreSeen("a", revision + since))


class Store:
    """What the history asks an API server."""

    def __init__(self, uid: str, version: int) -> None:
        self.uid = uid
        self.version = version

    def get(self, cls: type, namespace: str, name: str) -> Namespace:
        assert (cls, namespace, name) == (Namespace, "", "kube-system")
        return Namespace(metadata=ObjectMeta(name=name, uid=self.uid))

    def history(self) -> StoreHistory:
        return StoreHistory(cast("KubeClient", self), cast("Informer[Pod]", self))


def noted(store: Store) -> tuple[StoreHistory, PodRecord]:
    history, record = store.history(), new_record(pod())
    assert history.note(record)
    return history, record


def test_a_pod_that_is_there_is_noted_once_and_again_only_after_the_store_was_put_back() -> None:
    store = Store("a", 50)
    history, record = noted(store)
    store.version = 90
    assert not history.note(record)
    assert not history.has_forgotten(record)
    store.version = 80 + REVISION_GAP
    assert history.has_forgotten(record)
    # It is in the copy: what happens to it from now on counts from here.
    assert history.note(record)
    store.version += 7
    assert not history.has_forgotten(record)


def test_a_new_store_is_told_although_its_uid_was_read_before() -> None:
    store = Store("a", 50)
    history, record = noted(store)
    store.uid, store.version = "b", 60
    assert history.has_forgotten(record)


def test_a_forgotten_pod_that_comes_back_with_a_later_copy_is_wanted_again() -> None:
    history, record = noted(Store("a", 50))
    record.forgotten = True
    assert history.note(record)
    assert not record.forgotten


def test_the_record_of_an_earlier_version_counts_from_the_pod_itself() -> None:
    made = pod()
    made.metadata.resource_version = "60"
    store = Store("a", 61)
    assert not store.history().has_forgotten(new_record(made))
    store.version = 59
    assert store.history().has_forgotten(new_record(made))

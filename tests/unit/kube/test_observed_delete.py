"""Deleting what an informer knows: this very object, and the cache hears of it."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from kvedge.kube.errors import Forbidden, NotFound
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.observed_delete import delete_observed
from kvedge.resources.types.core import Pod
from tests.support.builders import a_pod, a_vmi


@pytest.mark.parametrize("stays", [True, False], ids=["it ends in a while", "it is gone at once"])
def test_what_is_left_of_it_goes_into_the_cache(stays: bool) -> None:
    pod, client, informer = a_pod(a_vmi()), MagicMock(), MagicMock()
    client.delete.return_value = left = pod if stays else None
    assert delete_observed(client, informer, pod)
    meta = pod.metadata
    # Under another UID it is somebody else's.
    client.delete.assert_called_once_with(Pod, meta.namespace, meta.name, Preconditions(uid=meta.uid))
    assert [call.args for call in informer.observe.call_args_list] == ([(left,)] if stays else [])


def test_one_that_is_not_there_any_more_is_not_reported_as_deleted() -> None:
    client, informer = MagicMock(), MagicMock()
    client.delete.side_effect = NotFound(404, "NotFound", "")
    assert not delete_observed(client, informer, a_pod(a_vmi()))
    assert not informer.observe.called


def test_a_refusal_is_the_callers() -> None:
    client = MagicMock()
    client.delete.side_effect = Forbidden(403, "Forbidden", "")
    with pytest.raises(Forbidden):
        delete_observed(client, MagicMock(), a_pod(a_vmi()))

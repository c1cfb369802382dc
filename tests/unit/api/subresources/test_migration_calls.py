"""What the caller of migrate hears when something changes between the look around and the write."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.api.subresources.migration_calls import MigrationCalls
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.errors import Forbidden, KubeError, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.guest_verbs import GUEST_VERBS
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_vm, a_vmi

VERB = next(verb for verb in GUEST_VERBS if verb.name == "migrate")


class Server:
    """A VM that runs on one of two nodes, and a server that answers the write with this error."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

    def get(self, cls: type[Any], namespace: str, name: str) -> Any:
        return a_vmi() if cls is VirtualMachineInstance else a_vm()

    def list(self, cls: type[Any], namespace: str, label_selector: str) -> list[Any]:
        return []

    def request(self, method: str, path: str, body: Any = None, query: Any = None) -> Any:
        if method == "POST":
            raise self._error
        return {"items": [{"metadata": {"name": name}} for name in ("node-1", "node-2")]}


def migrate(error: KubeError) -> None:
    MigrationCalls(cast("KubeClient", Server(error))).call(VERB, "default", "web", b"")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(KubeError(400, "BadRequest", "in-flight migration detected."), id="another was faster"),
        pytest.param(Forbidden(403, "Forbidden", "exceeded quota"), id="a quota"),
    ],
)
def test_a_refusal_of_the_write_is_the_callers(error: KubeError) -> None:
    with pytest.raises(Refusal) as caught:
        migrate(error)
    assert (caught.value.code, caught.value.message) == (error.status, error.message)


def test_a_server_that_does_not_answer_is_no_refusal() -> None:
    with pytest.raises(Unavailable):
        migrate(Unavailable(503, "", "no answer"))

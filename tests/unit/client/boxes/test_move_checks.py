"""As what a VM goes to another box; what is in its way is tested in tests/contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.client.boxes.move_checks import _find
from kvedge.client.errors import RefusedError
from kvedge.client.session import Session
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.support.scripted_api import Exchange, refusing, scripted_api

STORED: dict[str, Any] = {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": {"spec": {}}}}
TYPED: dict[str, Any] = {**STORED, "spec": {**STORED["spec"], "instancetype": {"name": "small"}}}
EXPANDED: dict[str, Any] = {**STORED, "spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}
RUN: dict[str, Any] = {"metadata": {"name": "web", "namespace": "shop"}, "status": {"phase": "Running"}}


def find(tmp_path: Path, stored: JsonObject, *, expands: bool = True) -> JsonObject:
    def answer(exchange: Exchange) -> None:
        path = exchange.request.path
        if path.endswith("/virtualmachines/web/expand-spec"):
            if expands:
                exchange.answer(200, EXPANDED)
            else:
                refusing(500, "InternalError")(exchange)
        else:
            exchange.answer(200, RUN if "virtualmachineinstances" in path else stored)

    with scripted_api(answer) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        session = Session(client, None, None, "shop")  # type: ignore[arg-type]
        return _find(session, "web")[0]


def test_a_vm_with_types_goes_as_what_they_make_of_it(tmp_path: Path) -> None:
    assert find(tmp_path, TYPED) == EXPANDED
    assert find(tmp_path, {**STORED, "spec": {**STORED["spec"], "preference": {"name": "p"}}}) == EXPANDED


def test_a_vm_without_goes_as_it_is(tmp_path: Path) -> None:
    assert find(tmp_path, STORED, expands=False) == STORED


def test_a_vm_that_nobody_can_expand_stays(tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        find(tmp_path, TYPED, expands=False)

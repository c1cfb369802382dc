"""What helps when there is no VM of a name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.nearest_vm import add_nearest_hint
from kvedge.client.session import connect
from tests.support.scripted_api import Exchange, scripted_api


@pytest.mark.parametrize(
    ("instances", "hint"),
    [([], ".* The VM web does not run: start it with `kvedge start web`."), (["web"], "no older log.")],
    ids=["a VM that is stopped", "a VM that runs, of which something else is missing"],
)
def test_a_vm_that_runs_is_not_said_to_be_stopped(instances: list[str], hint: str, tmp_path: Path) -> None:
    def script(exchange: Exchange) -> None:
        kind = exchange.request.path.rsplit("/", 1)[-1]
        names = {"virtualmachines": ["web"], "virtualmachineinstances": instances}[kind]
        items = [{"metadata": {"namespace": "default", "name": name}} for name in names]
        exchange.answer(200, {"kind": "List", "items": items})

    with scripted_api(script) as api:
        session = connect(load_kubeconfigs((api.write_kubeconfig(tmp_path / "kubeconfig"),), None))
        told = add_nearest_hint(session, "no older log", "virtualmachineinstances", "web")
        session.client.close()
    assert re.fullmatch(hint, told)

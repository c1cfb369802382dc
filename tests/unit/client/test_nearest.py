"""Words that are spelt like a word that nobody knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.nearest import or_nearest
from kvedge.client.nearest_vm import told_with_nearest
from kvedge.client.session import connect
from tests.support.scripted_api import Exchange, scripted_api


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("strat", " Did you mean start or restart?"),
        ("databse", " Did you mean database?"),
        ("reset", " Did you mean reset or restart?"),
        ("base", " Did you mean database?"),
        ("zzz", ""),
        ("", ""),
    ],
)
def test_what_is_spelt_alike_is_offered(word: str, hint: str) -> None:
    assert or_nearest(word, ["start", "stop", "restart", "reset", "database"]) == hint


def test_at_most_three_are_offered() -> None:
    assert or_nearest("web", [f"web-{number}" for number in range(9)]).count("web-") == 3


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
        told = told_with_nearest(session, "no older log", "virtualmachineinstances", "web")
        session.client.close()
    assert re.fullmatch(hint, told)

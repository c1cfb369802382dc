"""What a VM names is the user's word: nothing but a type comes of it, whatever the word leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.kube.kube_client import KubeClient
from kvedge.kube.type_finder import TypeFinder, TypeMissing
from kvedge.resources.instancetypes.matchers import INSTANCETYPE, PREFERENCE
from kvedge.resources.types.vm import Matcher
from tests.support.scripted_api import Exchange, ScriptedApi, scripted_api

ELSEWHERE = "../../../kubevirt.io/v1/namespaces/victim/virtualmachines/db"
VICTIM = {"kind": "VirtualMachine", "metadata": {"name": "db"}, "spec": {"template": {"spec": {"secret": "s"}}}}
OTHER = {"kind": "VirtualMachineClusterPreference", "metadata": {"name": "db"}, "spec": {}}


def answer_victim(exchange: Exchange) -> None:
    exchange.answer(200, VICTIM)


def finder(api: ScriptedApi, tmp_path: Path) -> TypeFinder:
    return TypeFinder(KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig")))


@pytest.mark.parametrize(
    "matcher",
    [
        Matcher(name=ELSEWHERE),
        Matcher(name=ELSEWHERE, kind="VirtualMachinePreference"),
        Matcher(name="fedora", revision_name=ELSEWHERE),
        Matcher(name="..%2fdb"),
        Matcher(name="db?watch=true"),
        Matcher(),
    ],
    ids=["cluster", "namespace", "revision", "escaped", "query", "nameless"],
)
def test_a_name_that_leads_elsewhere_finds_nothing_and_asks_nothing(tmp_path: Path, matcher: Matcher) -> None:
    with scripted_api(answer_victim) as api:
        with pytest.raises(TypeMissing):
            finder(api, tmp_path).find(PREFERENCE, "mine", matcher, None)
        with pytest.raises(TypeMissing):
            finder(api, tmp_path).find_spec(PREFERENCE, "mine", matcher, None)
        assert api.requests == []


@pytest.mark.parametrize("document", [VICTIM, OTHER], ids=["another kind", "another name"])
def test_an_object_that_was_not_asked_for_is_no_type(tmp_path: Path, document: dict[str, object]) -> None:
    with scripted_api(lambda exchange: exchange.answer(200, document)) as api:
        with pytest.raises(TypeMissing):
            finder(api, tmp_path).find(PREFERENCE, "mine", Matcher(name="fedora"), None)
        with pytest.raises(TypeMissing, match="no ControllerRevision"):
            finder(api, tmp_path).find(INSTANCETYPE, "mine", Matcher(name="a", revision_name="db"), None)


def test_what_was_asked_for_is_found(tmp_path: Path) -> None:
    with scripted_api(lambda exchange: exchange.answer(200, OTHER)) as api:
        assert finder(api, tmp_path).find(PREFERENCE, "mine", Matcher(name="db"), None).document == OTHER

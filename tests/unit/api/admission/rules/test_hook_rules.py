"""Hook sidecars enter with their feature gate, and only those of which containers can be made."""

from __future__ import annotations

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from tests.support.builders import small_vmi
from tests.support.reviews import request

AT = "metadata.annotations[hooks.kubevirt.io/hookSidecars]"
OPEN = Cluster("amd64", Configuration(gates=FeatureGates(enabled=frozenset({"Sidecar"}))))


def hooked(text: str) -> JsonObject:
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {"hooks.kubevirt.io/hookSidecars": text}
    return vmi


def test_without_the_gate_they_are_refused_in_kubevirts_words() -> None:
    (cause,) = plan_verdict(request(hooked('[{"image": "a"}]')), Cluster("amd64")).causes
    assert cause.field == AT
    assert cause.message == f"sidecar feature gate is not enabled in kubevirt-config, invalid entry {AT}"


def test_with_the_gate_they_enter() -> None:
    assert plan_verdict(request(hooked('[{"image": "a"}]')), OPEN).causes == ()


def test_one_that_could_never_start_is_refused_with_its_place() -> None:
    (cause,) = plan_verdict(request(hooked('[{"image": "a"}, {}]')), OPEN).causes
    assert (cause.field, cause.message.startswith(f"{AT}: [1].image is missing")) == (AT, True)


def test_an_empty_annotation_asks_for_nothing() -> None:
    assert plan_verdict(request(hooked("")), Cluster("amd64")).causes == ()

"""What labels of volumes say is a user's word, too."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.instancetypes.inference import InferenceError, infer_matchers
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind

LABEL = "instancetype.kubevirt.io/default-preference"
SPEC: dict[str, Any] = {
    "preference": {"inferFromVolume": "disk", "inferFromVolumeFailurePolicy": "Ignore"},
    "template": {"spec": {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]}},
}


def infer(**labels: str) -> dict[str, JsonObject | None]:
    def read(kind: Kind, namespace: str, name: str) -> JsonObject:
        assert (kind.kind, namespace, name) == ("PersistentVolumeClaim", "mine", "disk")
        return {"metadata": {"labels": {f"{LABEL}{part}": value for part, value in labels.items()}}}

    return infer_matchers(SPEC, "mine", read).matchers


def test_a_label_names_the_preference() -> None:
    assert infer(**{"": "rhel.9"}) == {"preference": {"name": "rhel.9"}}
    named = {"": "mine", "-kind": "VirtualMachinePreference"}
    assert infer(**named) == {"preference": {"name": "mine", "kind": "VirtualMachinePreference"}}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"": ".."}, "default-preference label on the volume is no name"),
        ({"": "Rhel_9"}, "is no name of an object: 'Rhel_9'"),
        ({"": "rhel.9", "-kind": "Secret"}, "default-preference-kind label on the volume: got unexpected kind"),
    ],
)
def test_a_label_that_names_no_type_is_told(labels: dict[str, str], words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        infer(**labels)

"""VMIs that are wrong at one place: volumes of files, and what else is a volume's own."""

from __future__ import annotations

from typing import Any

from tests.unit.api.admission.rules.wrong_disks import Wrong


def second(**source: Any) -> dict[str, Any]:
    """A second disk with its volume."""
    return {"domain.devices.disks[1]": {"name": "more"}, "volumes[1]": {"name": "more", **source}}


WRONG_VOLUMES: Wrong = {
    "config map without a name": (
        second(configMap={}),
        "spec.volumes[1].configMap.name",
        "spec.volumes[1].configMap.name is a required field",
    ),
    "secret without a name": (
        second(secret={}),
        "spec.volumes[1].secret.secretName",
        "spec.volumes[1].secret.secretName is a required field",
    ),
    "service account without a name": (
        second(serviceAccount={}),
        "spec.volumes[1].serviceAccount.serviceAccountName",
        "spec.volumes[1].serviceAccount.serviceAccountName is a required field",
    ),
    "layer over nothing": (
        second(ephemeral={}),
        "spec.volumes[1].ephemeral.persistentVolumeClaim.claimName",
        "spec.volumes[1].ephemeral.persistentVolumeClaim.claimName is a required field",
    ),
    "two service accounts": (
        {
            **second(serviceAccount={"serviceAccountName": "a"}),
            "domain.devices.disks[2]": {"name": "third"},
            "volumes[2]": {"name": "third", "serviceAccount": {"serviceAccountName": "a"}},
        },
        "spec.volumes",
        "spec.volumes must have max one serviceAccount volume set",
    ),
    "service account that is no name": (
        {"serviceAccountName": "Not A Name"},
        "spec.serviceAccountName",
        "spec.serviceAccountName is not a valid service account name",
    ),
    "another service account than the volume's": (
        {**second(serviceAccount={"serviceAccountName": "a"}), "serviceAccountName": "b"},
        "spec.serviceAccountName",
        'spec.serviceAccountName "b" and serviceAccount volume "a" must reference the same service account',
    ),
    "sysprep without a source": (
        second(sysprep={}),
        "spec.volumes[1].sysprep",
        "Sysprep must have Secret or ConfigMap reference set",
    ),
    "label that no image takes": (
        second(configMap={"name": "a", "volumeLabel": "x" * 33}),
        "spec.volumes[1].configMap.volumeLabel",
        "must have at most 32 characters",
    ),
}

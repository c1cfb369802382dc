"""Rules for volumes whose files become a disk, and for the service account that brings some, worded as KubeVirt's.

Called by admission_plan.py; touches nothing. Whether the objects are there is found out when the VM starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, required_cause
from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.types.volumes import Volume

# What an ISO 9660 image takes for a label.
_LONGEST_LABEL: Final = 32


def file_volumes_name_their_object(subject: Subject) -> Iterator[Cause]:
    """Each names a ConfigMap, a Secret or an account; at most one brings an account."""
    volumes, at = subject.spec.volumes, subject.at.at("volumes")
    for index, volume in enumerate(volumes):
        yield from _check_names(volume, at.item(index))
        yield from _label(volume, at.item(index))
    if sum(volume.service_account is not None for volume in volumes) > 1:
        yield Cause(at, f"{at} must have max one serviceAccount volume set")


def service_account_is_one(subject: Subject) -> Iterator[Cause]:
    """The VMI's account is a name, and the one of its volume: a Pod has one account."""
    name, at = subject.spec.service_account_name, subject.at.at("serviceAccountName")
    if not name:
        return
    complaints = dns_subdomain_complaints(name)
    if complaints:
        yield Cause(at, f"{at} is not a valid service account name: {'; '.join(complaints)}")
    for volume in subject.spec.volumes:
        other = volume.service_account.service_account_name if volume.service_account is not None else name
        if other != name:
            text = (
                f'spec.serviceAccountName "{name}" and serviceAccount volume "{other}" must reference the same service'
                " account"
            )
            yield Cause(at, text)


def _check_names(volume: Volume, at: Field) -> Iterator[Cause]:
    if volume.config_map is not None and not volume.config_map.name:
        yield _missing_cause(at.at("configMap", "name"))
    if volume.secret is not None and not volume.secret.secret_name:
        yield _missing_cause(at.at("secret", "secretName"))
    if volume.service_account is not None and not volume.service_account.service_account_name:
        yield _missing_cause(at.at("serviceAccount", "serviceAccountName"))
    below = volume.ephemeral.persistent_volume_claim if volume.ephemeral is not None else None
    if volume.ephemeral is not None and (below is None or not below.claim_name):
        yield _missing_cause(at.at("ephemeral", "persistentVolumeClaim", "claimName"))
    source = volume.sysprep
    if source is not None and not any(each is not None and each.name for each in (source.secret, source.config_map)):
        yield required_cause(
            at.at("sysprep"), f"{at.at('sysprep')}: Sysprep must have Secret or ConfigMap reference set"
        )


def _label(volume: Volume, at: Field) -> Iterator[Cause]:
    for name, source in (
        ("configMap", volume.config_map),
        ("secret", volume.secret),
        ("downwardAPI", volume.downward_api),
    ):
        if source is not None and len(source.volume_label.encode()) > _LONGEST_LABEL:
            here = at.at(name, "volumeLabel")
            yield Cause(here, f"{here} must have at most {_LONGEST_LABEL} characters")


def _missing_cause(at: Field) -> Cause:
    return required_cause(at, f"{at} is a required field")


RULES: Final[tuple[Rule, ...]] = (file_volumes_name_their_object, service_account_is_one)

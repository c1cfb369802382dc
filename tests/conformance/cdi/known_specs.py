"""CDI's specs that cannot apply to a box, each with its reason. Read by the run, which leaves them out. Pure."""

from __future__ import annotations

from typing import Final

from tests.conformance.known_specs import KnownSpecs

CANNOT_APPLY: Final[tuple[KnownSpecs, ...]] = (
    KnownSpecs(r"[Ii]mage[Ii][Oo]|VDDK|vddk|Vddk", "oVirt and VMware as sources are refused"),
    KnownSpecs(r"[Pp]opulator|volume(Import|Upload)Source|from PersistentVolumeClaim", "CDI's populators are no part"),
    KnownSpecs(r"\(webhook rendering\)|PVC mutating webhook", "claims are not filled in by a webhook"),
    KnownSpecs(r"ObjectTransfer|[Tt]ransfer tests", "ObjectTransfers are no part"),
    KnownSpecs(r"Explain tests", "wants CDI's own sentences"),
    KnownSpecs(r"cross-site scripting", "wants to read its own words again, which no answer repeats here"),
    KnownSpecs(r"absent architecture", "wants the words of the library by which CDI reads images"),
    KnownSpecs(r"Operator|cert rotation|aggregated api|Istio|\[Destructive\]", "looks into CDI's own Deployments"),
)

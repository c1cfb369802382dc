"""The webhook of DataVolumes that copy claims, as a configuration of its own: it is there while kvedge serves the kind.

Called by registration_loop.py. Touches nothing. Where CDI is installed CDI grants clones, and the configuration is
empty.
"""

from __future__ import annotations

from typing import Final

from kvedge.api.registration.document import Document
from kvedge.api.registration.webhook_manifest import webhook, webhook_configuration
from kvedge.api.served_paths import MUTATE_CLONE_PATH
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.clone_grants import CLONE_TOKEN
from kvedge.resources.types.data_volumes import DataVolume

NAME: Final = "kvedge-clones"
# Everything else about a DataVolume waits for nobody; a token that its user has written is taken away.
_COPIES: Final[JsonObject] = {
    "name": "copies-a-claim",
    # A spec may be missing: that is the validator's to say, and an expression that fails would say it in its own words.
    "expression": "(has(object.spec) && ((has(object.spec.source) && has(object.spec.source.pvc))"
    " || has(object.spec.sourceRef)))"
    f" || (has(object.metadata.annotations) && '{CLONE_TOKEN}' in object.metadata.annotations)",
}


def clone_webhooks(ca_bundle: bytes, secret: str, *, serves: bool) -> Document:
    """The configuration; `secret` is the part of secret_paths.py, `serves` says whether DataVolumes are kvedge's."""
    kind = DataVolume.KIND
    # Fail: a user who could copy without a right could read any disk.
    made = webhook(
        "datavolumes-clone-mutator.kvedge.io",
        f"{MUTATE_CLONE_PATH}/{secret}",
        ca_bundle,
        kind.plural,
        operations=("CREATE",),
        conditions=(_COPIES,),
        served=(kind.group, (kind.version,)),
    )
    made["reinvocationPolicy"] = "Never"
    return webhook_configuration("Mutating", [made] if serves else [], NAME)

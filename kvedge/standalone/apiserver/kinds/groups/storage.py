"""The kinds of storage.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing
from kvedge.standalone.apiserver.kinds.rules import storage_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, text
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _set_defaults(obj: JsonObject) -> None:
    set_missing(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


KINDS: Final = (
    BuiltinKind(
        "storage.k8s.io",
        "v1",
        kind="StorageClass",
        plural="storageclasses",
        namespaced=False,
        short_names=("sc",),
        singular="storageclass",
        columns=(
            NAME,
            text("Provisioner", "provisioner"),
            text("ReclaimPolicy", "reclaimPolicy", "Delete"),
            text("VolumeBindingMode", "volumeBindingMode", "Immediate"),
            AGE,
        ),
        set_defaults=_set_defaults,
        check=storage_rules.check_class,
        check_update=storage_rules.check_class_update,
        protobuf=IN_KUBERNETES,
    ),
)

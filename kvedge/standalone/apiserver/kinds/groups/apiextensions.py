"""The kinds of apiextensions.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.custom import crd_rules
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.table_columns import CREATED_AT, NAME


def _set_crd_defaults(obj: JsonObject) -> None:
    spec = spec_of(obj)
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        set_missing(names, singular=str(names["kind"]).lower(), listKind=f"{names['kind']}List")
    set_missing(spec, conversion={"strategy": "None"})


KINDS: Final = (
    BuiltinKind(
        "apiextensions.k8s.io",
        "v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        counts_generation=True,
        columns=(NAME, CREATED_AT),
        set_defaults=_set_crd_defaults,
        check=crd_rules.check_crd,
        check_update=crd_rules.check_crd_update,
    ),
)

"""Rules for DataVolumes and DataSources, in CDI's words.

Called by admission_plan.py, while kvedge serves these kinds; touches nothing. What a DataVolume asks for is judged by
`data_volume_checks`, as the templates of a VM are. Whether a source is there is found out later, as it may still come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, required_cause
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.disks.data_volume_checks import data_volume_problems
from kvedge.resources.types.data_volumes import DataSource, DataVolume

_SPEC: Final = Field("spec")


def data_volume_is_complete(document: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """One claim and one source on a create; the same ever after: what is there was made from them."""
    if old is not None:
        if old.get("spec") != document.get("spec"):
            text = "Cannot update DataVolume Spec: delete the DataVolume and make it anew, or resize its claim"
            yield Cause(_SPEC, text, "FieldValueDuplicate")
        return
    try:
        dv = decode(DataVolume, document)
    except DecodeError as error:
        yield Cause(error.path, str(error), "FieldValueTypeInvalid")
        return
    for path, text in data_volume_problems(dv.spec):
        yield Cause(_SPEC.at(*path.split(".")), text)


def data_source_is_complete(document: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """At most one source, which has a name; another DataSource only of its own namespace."""
    if old is not None and old.get("spec") == document.get("spec"):
        return
    try:
        found = decode(DataSource, document)
    except DecodeError as error:
        yield Cause(error.path, str(error), "FieldValueTypeInvalid")
        return
    at, source = _SPEC.at("source"), found.spec.source
    given = {"pvc": source.pvc, "snapshot": source.snapshot, "dataSource": source.data_source}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        yield Cause(at, f"{at}: set one of {', '.join(given)}, not {' and '.join(named)}")
    for name, value in named.items():
        if not value.name:
            here = at.at(name, "name")
            yield required_cause(here, f"{here} is a required field")
    pointer = source.data_source
    if pointer is None:
        return
    if pointer.namespace and pointer.namespace != found.metadata.namespace:
        yield Cause(at.at("dataSource"), "DataSource cannot reference a DataSource in another namespace")
    elif pointer.name == found.metadata.name:
        yield Cause(at.at("dataSource"), "DataSource cannot self-reference")

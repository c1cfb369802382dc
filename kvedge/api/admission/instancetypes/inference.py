"""What a VM's volume says of its instance type or preference: the labels of claims, and of what fills them.

Called by the webhook of VMs, in a thread that may wait. Asks the API server by the function that it is given. Worded as
KubeVirt words it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from kvedge.kube.errors import NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.instancetypes.matchers import IGNORE, INSTANCETYPE, PARTS, Part, UnknownKind
from kvedge.resources.kinds import Kind
from kvedge.resources.types.data_volumes import DataSource, DataVolume
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import Matcher
from kvedge.resources.values.name_grammar import is_subdomain

# The object of a kind in a namespace; raises NotFound, KubeError when nobody knows, DeniedError when it is not for the
# author's eyes.
Reader = Callable[[Kind, str, str], JsonObject]
_SNAPSHOT: Final = Kind("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots")


class InferenceError(ValueError):
    """Nothing can be read from the volume."""


class DeniedError(InferenceError):
    """The VM's author may not look at what its volume is filled from."""


class IgnorableError(InferenceError):
    """The volume says nothing: a VM may choose to go on without."""


class Inferred(Struct, frozen=True):
    """What becomes of a VM's spec: its matchers, None for one that goes; and whether its memory goes as well."""

    matchers: dict[str, JsonObject | None] = field(default_factory=dict)
    drops_memory: bool = False


def asks_to_infer(spec: JsonObject) -> bool:
    """Whether a VM wants to have something read from a volume."""
    return any((spec.get(part.member) or {}).get("inferFromVolume") for part in PARTS)


def infer_matchers(spec: JsonObject, namespace: str, read: Reader) -> Inferred:
    """Read what a VM asks to have read from its volumes.

    Raises:
        InferenceError: when nothing is found and the VM does not go without.
        DeniedError: when it would be of another namespace, and not for the VM's author.
        KubeError: when an object is not there, or the server refuses or does not answer.
    """
    made: dict[str, JsonObject | None] = {}
    drops_memory = False
    for part in PARTS:
        matcher = spec.get(part.member) or {}
        volume = matcher.get("inferFromVolume")
        if not volume:
            continue
        goes_without = matcher.get("inferFromVolumeFailurePolicy") == IGNORE
        try:
            name, kind = _Chain(part, namespace, read).of_volume(spec, volume)
        except IgnorableError:
            if not goes_without:
                raise
            made[part.member] = None
        except DeniedError as error:
            raise DeniedError(f"spec.{part.member}.inferFromVolume: {error}") from error
        else:
            drops_memory = drops_memory or (goes_without and part is INSTANCETYPE)
            made[part.member] = {"name": name, **({"kind": kind} if kind else {})}
    return Inferred(made, drops_memory)


class _Chain(Struct, frozen=True):
    part: Part
    namespace: str
    read: Reader

    def of_volume(self, spec: JsonObject, name: str) -> tuple[str, str]:
        """Name and kind, from the volume of this name."""
        volumes = ((spec.get("template") or {}).get("spec") or {}).get("volumes") or ()
        volume = next((each for each in volumes if each.get("name") == name), None)
        if volume is None:
            raise InferenceError(f"unable to find volume {name} to infer defaults")
        if volume.get("persistentVolumeClaim"):
            return self._of_claim(volume["persistentVolumeClaim"].get("claimName", ""), self.namespace)
        if volume.get("dataVolume"):
            return self._of_data_volume(spec, volume["dataVolume"].get("name", ""))
        raise IgnorableError(f"unable to infer defaults from volume {name} as type is not supported")

    def _of_labels(self, document: JsonObject) -> tuple[str, str]:
        labels = (document.get("metadata") or {}).get("labels") or {}
        if self.part.default_label not in labels:
            raise IgnorableError(f"unable to find required {self.part.default_label} label on the volume")
        name, kind = labels[self.part.default_label], labels.get(self.part.default_kind_label, "")
        if not is_subdomain(name):
            raise InferenceError(f"the {self.part.default_label} label on the volume is no name of an object: {name!r}")
        try:
            self.part.kind_of(Matcher(name=name, kind=kind))
        except UnknownKind as error:
            raise InferenceError(f"the {self.part.default_kind_label} label on the volume: {error}") from error
        return name, kind

    def _of_claim(self, name: str, namespace: str) -> tuple[str, str]:
        return self._of_labels(self.read(PersistentVolumeClaim.KIND, namespace, name))

    def _of_data_volume(self, spec: JsonObject, name: str) -> tuple[str, str]:
        for template in spec.get("dataVolumeTemplates") or ():
            if (template.get("metadata") or {}).get("name") == name:
                return self._of_source(template.get("spec") or {})
        try:
            found = self.read(DataVolume.KIND, self.namespace, name)
        except NotFound:
            # It is collected once its claim is full.
            return self._of_claim(name, self.namespace)
        try:
            return self._of_labels(found)
        except IgnorableError:
            return self._of_source(found.get("spec") or {})

    def _of_source(self, spec: JsonObject) -> tuple[str, str]:
        source, ref = spec.get("source") or {}, spec.get("sourceRef")
        if source.get("pvc"):
            return self._of_claim(source["pvc"].get("name", ""), source["pvc"].get("namespace") or self.namespace)
        if source.get("snapshot"):
            return self._of_snapshot(source["snapshot"])
        if ref:
            if ref.get("kind") != DataSource.KIND.kind:
                text = f"unable to infer defaults from DataVolumeSourceRef as Kind {ref.get('kind')} is not supported"
                raise IgnorableError(text)
            return self._of_data_source(ref.get("name", ""), ref.get("namespace") or self.namespace)
        raise IgnorableError("unable to infer defaults from DataVolumeSpec as DataVolumeSource is not supported")

    def _of_data_source(self, name: str, namespace: str) -> tuple[str, str]:
        found = self.read(DataSource.KIND, namespace, name)
        try:
            return self._of_labels(found)
        except IgnorableError:
            source = (found.get("spec") or {}).get("source") or {}
        if source.get("pvc"):
            return self._of_claim(source["pvc"].get("name", ""), source["pvc"].get("namespace") or namespace)
        if source.get("snapshot"):
            return self._of_snapshot(source["snapshot"])
        raise IgnorableError(
            "unable to infer defaults from DataSource that doesn't provide DataVolumeSourcePVC or"
            " DataVolumeSourceSnapshot"
        )

    def _of_snapshot(self, source: JsonObject) -> tuple[str, str]:
        namespace = source.get("namespace") or self.namespace
        return self._of_labels(self.read(_SNAPSHOT, namespace, source.get("name", "")))


def with_inferred(spec: JsonObject, inferred: Inferred) -> JsonObject:
    """A VM's spec with what was read; documents of before are not touched."""
    made = {name: value for name, value in spec.items() if inferred.matchers.get(name, value) is not None}
    made |= {name: matcher for name, matcher in inferred.matchers.items() if matcher is not None}
    if inferred.drops_memory:
        template = made.get("template") or {}
        inner = template.get("spec") or {}
        domain = {name: value for name, value in (inner.get("domain") or {}).items() if name != "memory"}
        made["template"] = {**template, "spec": {**inner, "domain": domain}}
    return made

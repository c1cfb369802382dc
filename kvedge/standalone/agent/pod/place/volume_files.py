"""The files of volumes that come from the API: Secrets, ConfigMaps, tokens and the Pod's own fields.

Called by `pod_volumes`, which writes them. Reads objects by what it is given; a missing one is told in a
`VolumeError`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeVar

from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.core import (
    ConfigMap,
    ConfigMapVolume,
    DownwardApiVolume,
    KeyToPath,
    Pod,
    PodVolume,
    ProjectedVolume,
    Secret,
    SecretVolume,
)
from kvedge.standalone.agent.container.atomic_files import FileContent
from kvedge.standalone.agent.pod.place.claim_volumes import ClaimReader
from kvedge.standalone.agent.pod.place.pod_fields import BadField, downward_files

_DEFAULT_MODE: Final = 0o644
_TOKEN_SECONDS: Final = 3600
# By this number Kubernetes knows the tokens that every Pod gets, and stretches them to a year, as programs read them
# once. A guest's disk is read once as well.
_STRETCHED_SECONDS: Final = 3607
_LONGEST_TOKEN_SECONDS: Final = 365 * 24 * 3600
_T = TypeVar("_T")


class VolumeError(Exception):
    """A volume cannot be set up (yet); the text is for a FailedMount event."""


class ObjectReader(ClaimReader, Protocol):
    """Where Secrets, ConfigMaps and claims come from."""

    def token(self, pod: Pod, account: str, audience: str, seconds: int) -> str | None:
        """A token of a Pod's service account, for so many seconds and while the Pod is there; None without account."""

    def secret(self, namespace: str, name: str) -> Secret | None:
        """The Secret, or None."""

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        """The ConfigMap, or None."""


def file_mode(wanted: int | None) -> int:
    """The mode that is wanted of a file, else the kubelet's."""
    return _DEFAULT_MODE if wanted is None else wanted


def read_downward(pod: Pod, items: Iterable[JsonObject], mode: int) -> dict[str, FileContent]:
    """The Pod's own fields that are asked for."""
    try:
        return downward_files(pod, items, mode)
    except BadField as error:
        raise VolumeError(str(error)) from error


def read_projected(pod: Pod, wanted: ProjectedVolume, reader: ObjectReader) -> dict[str, FileContent]:
    """The files of all sources in one directory; a later source replaces an earlier one's file of the same path."""
    found: dict[str, FileContent] = {}
    mode = file_mode(wanted.default_mode)
    for source in wanted.sources:
        kind, value = next(((key, value) for key, value in source.items() if isinstance(value, dict)), ("", {}))
        found |= _projection(pod, kind, value, mode, reader)
    return found


def _projection(pod: Pod, kind: str, source: JsonObject, mode: int, reader: ObjectReader) -> dict[str, FileContent]:
    match kind:
        case "secret":
            named = {"secretName": source.get("name"), **source, "defaultMode": mode}
            return read_secret(pod, PodVolume(name=kind, secret=_source(SecretVolume, named)), reader)
        case "configMap":
            config_map = _source(ConfigMapVolume, {**source, "defaultMode": mode})
            return read_config_map(pod, PodVolume(name=kind, config_map=config_map), reader)
        case "downwardAPI":
            return read_downward(pod, _source(DownwardApiVolume, source).items, mode)
        case "serviceAccountToken":
            return _token_file(pod, source, mode, reader)
    raise VolumeError(f"kvedge does not project {kind or 'an empty source'}")


def _source(cls: type[_T], document: JsonObject) -> _T:
    try:
        return decode(cls, document)
    except DecodeError as error:
        raise VolumeError(str(error)) from error


def _token_file(pod: Pod, source: JsonObject, mode: int, reader: ObjectReader) -> dict[str, FileContent]:
    account = pod.spec.service_account_name or "default"
    seconds, audience = source.get("expirationSeconds"), str(source.get("audience") or "")
    wanted = seconds if isinstance(seconds, int) else _TOKEN_SECONDS
    if wanted == _STRETCHED_SECONDS and not audience:
        wanted = _LONGEST_TOKEN_SECONDS
    token = reader.token(pod, account, audience, wanted)
    if token is None:
        raise VolumeError(f'failed to fetch token: serviceaccounts "{account}" not found')
    return {str(source.get("path") or "token"): FileContent(token.encode(), mode)}


def read_secret(pod: Pod, volume: PodVolume, reader: ObjectReader) -> dict[str, FileContent]:
    """The files of a Secret."""
    wanted = volume.secret
    assert wanted is not None
    found = reader.secret(pod.metadata.namespace, wanted.secret_name)
    if found is None and not wanted.optional:
        raise VolumeError(f'secret "{wanted.secret_name}" not found')
    try:
        data = {key: base64.b64decode(value) for key, value in found.data.items()} if found else {}
    except ValueError as error:
        raise VolumeError(f'secret "{wanted.secret_name}" is not base64') from error
    return _choose_files(data, wanted.items, wanted.default_mode, bool(wanted.optional))


def read_config_map(pod: Pod, volume: PodVolume, reader: ObjectReader) -> dict[str, FileContent]:
    """The files of a ConfigMap."""
    wanted = volume.config_map
    assert wanted is not None
    found = reader.config_map(pod.metadata.namespace, wanted.name)
    if found is None and not wanted.optional:
        raise VolumeError(f'configmap "{wanted.name}" not found')
    data = {key: value.encode() for key, value in found.data.items()} if found else {}
    return _choose_files(data, wanted.items, wanted.default_mode, bool(wanted.optional))


def _choose_files(
    data: Mapping[str, bytes], items: list[KeyToPath], mode: int | None, optional: bool
) -> dict[str, FileContent]:
    default = _DEFAULT_MODE if mode is None else mode
    if not items:
        return {key: FileContent(value, default) for key, value in data.items()}
    chosen = {}
    for item in items:
        if item.key in data:
            chosen[item.path] = FileContent(data[item.key], default if item.mode is None else item.mode)
        elif not optional:
            raise VolumeError(f"references non-existent key: {item.key}")
    return chosen

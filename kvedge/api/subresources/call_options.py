"""The bodies of subresource calls: YAML or JSON, or nothing at all.

Called by the subresource handlers. Touches nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
import yaml

from kvedge.api.subresources.status_message import Refusal, bad_request
from kvedge.resources.codec import DecodeError, JsonObject, KubeStruct, decode
from kvedge.resources.relay_protocol import LONGEST_FREEZE_SECONDS, UNFREEZE_SECONDS
from kvedge.resources.values.durations import DurationError, parse_duration

# YAML takes a second per megabyte to read: options are a few words, and a VM that is larger comes as JSON.
_MOST_YAML_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 1024 * 1024
# AMD's firmware takes 16 KiB, which base64 makes a third longer.
_LONGEST_SECRET: Final = 24 * 1024
# KubeVirt's, for a freeze without a timeout.
_DEFAULT_FREEZE_SECONDS: Final = 300


class CallOptions(KubeStruct, kw_only=True):
    """What every call may say; `dryRun: [All]` checks and changes nothing."""

    api_version: str = ""
    kind: str = ""
    dry_run: list[str] = msgspec.field(default_factory=list)

    @property
    def is_dry_run(self) -> bool:
        """Whether nothing is to be changed."""
        return "All" in self.dry_run

    def for_relay(self) -> JsonObject:
        """What the node's relay is told of them. Raises Refusal for what makes no sense."""
        return {}


class StartOptions(CallOptions, kw_only=True):
    """`paused`: the guest's CPUs do not run until somebody unpauses it."""

    paused: bool = False


class StopOptions(CallOptions, kw_only=True):
    """`gracePeriod`: seconds that the guest has for shutting down."""

    grace_period: int | None = None


class RestartOptions(CallOptions, kw_only=True):
    """`gracePeriodSeconds`: only 0, which does not wait for the guest."""

    grace_period_seconds: int | None = None


class FreezeOptions(CallOptions, kw_only=True):
    """`unfreezeTimeout`: a duration such as 5m0s, after which the guest thaws by itself."""

    unfreeze_timeout: str | None = None

    def for_relay(self) -> JsonObject:
        """How long the launcher keeps the guest frozen. Raises Refusal."""
        return {UNFREEZE_SECONDS: freeze_seconds(self)}


class EvacuateCancelOptions(CallOptions, kw_only=True):
    """`evacuationNodeName`: the node that the guest was to leave, as the caller has seen it."""

    evacuation_node_name: str = ""


class MigrateOptions(CallOptions, kw_only=True):
    """`addedNodeSelector`: labels that the node must have besides those that the VM asks for."""

    added_node_selector: dict[str, str] = msgspec.field(default_factory=dict)


class AddVolumeOptions(CallOptions, kw_only=True):
    """`name` of the new volume and disk; `disk` and `volumeSource` as in a VMI's spec."""

    name: str = ""
    disk: JsonObject | None = None
    volume_source: JsonObject | None = None


class RemoveVolumeOptions(CallOptions, kw_only=True):
    """`name` of the volume."""

    name: str = ""


class MemoryDumpOptions(CallOptions, kw_only=True):
    """`claimName`: the claim that the dump goes into; that of the last dump unless given."""

    claim_name: str = ""


class SevSessionOptions(CallOptions, kw_only=True):
    """`session` and `dhCert` of the guest's owner, both base64."""

    session: str = ""
    dh_cert: str = msgspec.field(name="dhCert", default="")


class SevSecretOptions(CallOptions, kw_only=True):
    """`secret` for the guest, encrypted, and the `header` by which its firmware reads it; both base64."""

    header: str = ""
    secret: str = ""

    def for_relay(self) -> JsonObject:
        """Both of them. Raises Refusal."""
        if not self.header and not self.secret:
            raise bad_request("Request with no body: SEV secret parameters are required")
        if not self.header:
            raise bad_request("Header is required")
        if not self.secret:
            raise bad_request("Secret is required")
        if max(len(self.header), len(self.secret)) > _LONGEST_SECRET:
            raise bad_request(f"header and secret may have {_LONGEST_SECRET} characters at most")
        return {"header": self.header, "secret": self.secret}


# The options of the verbs that have some of their own.
OPTIONS: Final[Mapping[str, type[CallOptions]]] = {
    "freeze": FreezeOptions,
    "sev/injectlaunchsecret": SevSecretOptions,
}


def freeze_seconds(options: FreezeOptions) -> int:
    """For how long, in whole seconds; 0 for until it is undone.

    Raises:
        Refusal: 400 when that is no duration, or none that can be.
    """
    if options.unfreeze_timeout is None:
        return _DEFAULT_FREEZE_SECONDS
    try:
        seconds = parse_duration(options.unfreeze_timeout)
    except DurationError as error:
        raise bad_request(f"Can not unmarshal Request body to struct, error: unfreezeTimeout: {error}") from error
    if not 0 <= seconds <= LONGEST_FREEZE_SECONDS:
        longest = f"{LONGEST_FREEZE_SECONDS // 3600}h"
        raise bad_request(f"unfreezeTimeout: {options.unfreeze_timeout} is not between 0s and {longest}")
    return math.ceil(seconds)


T = TypeVar("T", bound=CallOptions)


def parse_options(cls: type[T], body: bytes) -> T:
    """The options in a body; an empty one has none.

    Raises:
        Refusal: 400, worded as KubeVirt words it.
    """
    if not body.strip():
        return cls()
    document = parse_document(body)
    try:
        options = decode(cls, document)
    except DecodeError as error:
        raise _parse_error(str(error)) from error
    if any(value != "All" for value in options.dry_run):
        raise bad_request(f"dryRun: {options.dry_run} is not supported, allowed values: [All]")
    return options


def parse_document(body: bytes) -> dict[str, Any]:
    """The object in a body of JSON or YAML.

    Raises:
        Refusal: 400, worded as KubeVirt words it; 413 when it is too long.
    """
    if len(body) > _MOST_BYTES:
        raise Refusal(413, f"the body is longer than {_MOST_BYTES} bytes")
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        document = _yaml(body)
    if not isinstance(document, dict):
        raise _parse_error("it is no object")
    return document


class _PlainLoader(yaml.SafeLoader):
    """Without aliases: a few of them stand for more than any memory holds, once they are written out."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not supported")
        return super().compose_node(parent, index)


def _yaml(body: bytes) -> Any:
    if len(body) > _MOST_YAML_BYTES:
        raise Refusal(413, f"the body is no JSON, and longer than the {_MOST_YAML_BYTES} bytes that YAML may have")
    try:
        return yaml.load(body, _PlainLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _parse_error(str(error)) from error


def _parse_error(detail: str) -> Exception:
    return bad_request(f"Can not unmarshal Request body to struct, error: {detail}")

"""Hook sidecars: containers beside a guest's launcher that it asks about the domain's document before the guest starts.

Asked for by an annotation of a VMI, as in KubeVirt. Read by admission, by the launcher Pod's manifest and by the
handler. Pure. Fields are KubeVirt's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from kvedge.resources.values.hook_names import HOOK_SIDECARS, HOOK_VERSIONS
from kvedge.resources.values.name_grammar import is_subdomain

# The files that KubeVirt's shim runs, and ours.
HOOK_SCRIPTS: Final = ("/usr/bin/onDefineDomain", "/usr/bin/preCloudInitIso")
# Each is asked one after the other while a start waits.
MOST_SIDECARS: Final = 8
_POLICIES: Final = ("", "Always", "IfNotPresent", "Never")
_FIELDS: Final = frozenset({"image", "imagePullPolicy", "command", "args", "configMap"})
_SCRIPT_FIELDS: Final = frozenset({"name", "key", "hookPath"})
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_LONGEST_WORD: Final = 60


class HookSidecarError(ValueError):
    """The annotation cannot be followed; `path` is the place in it, such as `[0].image`."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path} {detail}" if path else detail)
        self.path = path


class HookScript(Struct, frozen=True):
    """A key of a ConfigMap that is mounted as an executable file."""

    config_map: str
    key: str
    path: str


class HookSidecar(Struct, frozen=True):
    """One container; without an image it is kvedge's own shim, which runs the script.

    `plugin` is the network binding plugin that it is of, if of one; `tells_devices` says that it is told of the devices
    of the guest's networks.
    """

    image: str = ""
    pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    script: HookScript | None = None
    plugin: str = ""
    tells_devices: bool = False


def wants_hooks(annotations: Mapping[str, str]) -> bool:
    """Whether a VMI with these annotations asks for hook sidecars."""
    return bool(annotations.get(HOOK_SIDECARS))


def read_hook_sidecars(annotations: Mapping[str, str]) -> tuple[HookSidecar, ...]:
    """The sidecars that a VMI asks for, in their order.

    Raises:
        HookSidecarError: for an annotation that cannot be followed.
    """
    text = annotations.get(HOOK_SIDECARS)
    if not text:
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HookSidecarError("", 'is no JSON; write a list such as [{"image": "registry/hook:1"}]') from error
    if not isinstance(found, list):
        raise HookSidecarError("", 'must be a list, such as [{"image": "registry/hook:1"}]')
    if len(found) > MOST_SIDECARS:
        raise HookSidecarError("", f"has {len(found)} sidecars; at most {MOST_SIDECARS} are possible")
    return tuple(_read(item, f"[{number}]") for number, item in enumerate(found))


def _read(item: Any, at: str) -> HookSidecar:
    _check_fields(item, _FIELDS, at)
    made = HookSidecar(
        image=_text(item, "image", at),
        pull_policy=_text(item, "imagePullPolicy", at),
        command=_texts(item, "command", at),
        args=_texts(item, "args", at),
        script=None if item.get("configMap") is None else _read_script(item["configMap"], f"{at}.configMap"),
    )
    if made.pull_policy not in _POLICIES:
        raise HookSidecarError(f"{at}.imagePullPolicy", "must be Always, IfNotPresent or Never")
    if not made.image:
        _check_shim(made, at)
    return made


def _check_shim(made: HookSidecar, at: str) -> None:
    if made.script is None:
        raise HookSidecarError(f"{at}.image", "is missing: name the sidecar's image, or a script in configMap")
    if made.command:
        raise HookSidecarError(f"{at}.command", "needs an image; without one kvedge itself runs the script")
    if shim_version(made.args) is None:
        versions = ", ".join(sorted(HOOK_VERSIONS))
        raise HookSidecarError(f"{at}.args", f'must be ["--version", VERSION] with one of {versions}, without an image')


def shim_version(args: tuple[str, ...]) -> str | None:
    """The protocol that a shim's arguments ask for, or None when they say something else."""
    joined = args[0].removeprefix("--version=") if len(args) == 1 and args[0].startswith("--version=") else ""
    named = args[1] if len(args) == 2 and args[0] == "--version" else joined
    return named if named in HOOK_VERSIONS else None


def _read_script(item: Any, at: str) -> HookScript:
    _check_fields(item, _SCRIPT_FIELDS, at)
    made = HookScript(_text(item, "name", at), _text(item, "key", at), _text(item, "hookPath", at))
    if not is_subdomain(made.config_map):
        raise HookSidecarError(f"{at}.name", "must be the name of a ConfigMap in the VM's namespace")
    if not _KEY.fullmatch(made.key) or made.key in (".", ".."):
        raise HookSidecarError(f"{at}.key", "must be a key of that ConfigMap")
    if made.path not in HOOK_SCRIPTS:
        raise HookSidecarError(f"{at}.hookPath", f"must be {' or '.join(HOOK_SCRIPTS)}")
    return made


def _check_fields(item: Any, known: frozenset[str], at: str) -> None:
    if not isinstance(item, dict):
        raise HookSidecarError(at, "must be an object")
    if "pvc" in item and "pvc" not in known:
        raise HookSidecarError(
            f"{at}.pvc", "is not supported: kvedge does not share claims with sidecars; use a ConfigMap or an image"
        )
    unknown = sorted(str(name) for name in item.keys() - known)
    if unknown:
        raise HookSidecarError(
            at, f"has the unknown field {unknown[0][:_LONGEST_WORD]!r}; known are {', '.join(sorted(known))}"
        )


def _text(item: dict[str, Any], name: str, at: str) -> str:
    value = item.get(name)
    if value is not None and not isinstance(value, str):
        raise HookSidecarError(f"{at}.{name}", "must be a text")
    return value or ""


def _texts(item: dict[str, Any], name: str, at: str) -> tuple[str, ...]:
    value = item.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise HookSidecarError(f"{at}.{name}", "must be a list of texts")
    return tuple(value)

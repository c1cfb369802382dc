"""The form of a new VM: what `kvedge launch` makes of it, and at which field an error is shown.

Called by `new_vm` and `web_failures`. Pure: the rules are the client's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.client.errors import FlagError
from kvedge.client.manifests.cloud_config import Login
from kvedge.client.manifests.launch_choice import LaunchChoice, launch_options, read_keys
from kvedge.client.manifests.launch_disk import is_path
from kvedge.client.manifests.vm_manifest import CloudInitData, launch_manifest
from kvedge.resources.codec import JsonObject

# The form's fields by the flag of `kvedge launch` that they stand for.
_FIELD_OF_FLAG: Final = {"cpu": "cpus", "ssh-key": "sshKeys", "run-strategy": "runStrategy", "disk-size": "disk"}
_SOURCES: Final = ("image", "claim", "dataSource")
_NO_FILES: Final = "a file of this computer is uploaded by `kvedge launch`; name an image or a URL here"
_MOST_CPUS: Final = 512
# A URL is the longest of what stands on one line.
_LONGEST: Final = 2048
_LONGEST_OF: Final = {"sshKeys": 16 * 1024, "networks": 16 * 1024}
# Where the server finds fault, and the field whose value stands there; the first that fits.
_FIELD_OF_PATH: Final = (
    ("metadata.name", "name"),
    ("metadata.namespace", "namespace"),
    ("spec.instancetype", "type"),
    ("spec.preference", "os"),
    ("spec.runStrategy", "runStrategy"),
    ("spec.dataVolumeTemplates", "disk"),
    ("spec.template.spec.domain.cpu", "cpus"),
    ("spec.template.spec.domain.memory", "memory"),
    ("spec.template.spec.domain.resources", "memory"),
    ("spec.template.spec.networks", "networks"),
    ("spec.template.spec.domain.devices.interfaces", "networks"),
    ("spec.template.spec.volumes[0]", "image"),
)


def read_form(form: Mapping[str, object]) -> JsonObject:
    """The manifest of what was filled in.

    Raises:
        UsageError: for what makes no sense; mostly a FlagError with the flag.
    """
    texts = {key: value.strip() for key, value in form.items() if isinstance(value, str)}
    too_long = next((key for key, value in texts.items() if len(value) > _LONGEST_OF.get(key, _LONGEST)), None)
    if too_long is not None:
        raise _fault(too_long, "this is too long")

    def text(key: str) -> str:
        return texts.get(key, "")

    source = text("source")
    if source not in _SOURCES:
        raise _fault("source", f"use one of {', '.join(_SOURCES)}")
    if not text(source):
        raise _fault(source, "this is needed")
    if is_path(text("image")) and source == "image":
        raise _fault("image", _NO_FILES)
    options = launch_options(
        LaunchChoice(
            image=text("image") if source == "image" else "",
            claim=text("claim") if source == "claim" else "",
            data_source=text("dataSource") if source == "dataSource" else "",
            name=text("name"),
            memory=text("memory") or None,
            cpus=_cpus(text("cpus")),
            type=text("type"),
            os=text("os"),
            disk="" if source == "claim" else text("disk"),
            storage_class="" if source == "claim" else text("storageClass"),
            run_strategy=text("runStrategy") or "Always",
            cloud_init=CloudInitData(
                login=Login(text("user"), _password(form), read_keys("ssh-key", text("sshKeys"), "this"))
            ),
            networks=tuple(name for name in text("networks").replace(",", " ").split() if name),
            # On a box the files would be those of the daemon, and the form would tell anybody which there are.
            may_be_file=False,
        )
    )
    return launch_manifest(options)


def field_of_flag(flag: str) -> str:
    """The form's name of what a flag stands for."""
    return _FIELD_OF_FLAG.get(flag, flag)


def field_of_path(path: str) -> str:
    """The form's field whose value stands at this path of a VM; empty for none."""
    return next((field for start, field in _FIELD_OF_PATH if path.startswith(start)), "")


def _cpus(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 3 or not 1 <= int(text) <= _MOST_CPUS:
        raise _fault("cpus", f"a whole number from 1 to {_MOST_CPUS}")
    return int(text)


def _password(form: Mapping[str, object]) -> str:
    """As it is: blanks at its ends are part of it."""
    password = form.get("password")
    if not isinstance(password, str):
        return ""
    if not password.isprintable():
        raise _fault("password", "it may have no line breaks and other control characters")
    return password


def _fault(field: str, why: str) -> FlagError:
    return FlagError(field, why, f"{field}: {why}")

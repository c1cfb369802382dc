"""Who may say that a guest goes on from saved memory, or with the TPM of a claim or of another VM: the controller.

Called by admission_plan.py. Works on documents as they came; touches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, unsupported_cause
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.state_claims import STATE_CLAIM, TPM_ORIGIN
from kvedge.resources.role_users import UserInfo
from kvedge.resources.values.saved_memory import RESUME_MEMORY

# What a VM is then, as `controller/vm/vm_status` has it.
_WITH_GUEST: Final = ("Running", "Paused", "Migrating", "Stopping")
_AT: Final = Field("metadata").at("annotations").key(RESUME_MEMORY)


def resume_is_ours(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """Memory on disks that it does not belong to destroys their file systems; anybody may take the word away."""
    before, after = (_read(document) for document in (old, new))
    if user.is_controller or after is None or after == before:
        return
    yield unsupported_cause(_AT, f"{_AT}: only a restore of kvedge writes it: leave it out")


def state_claim_is_ours(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """With it a VM has the TPM of the claim that it names, and without it a new one, which knows none of its keys.

    A VM that is made may say it: somebody brings it back with its claims, which say whose they are. While a guest runs
    nobody takes the word away: a migration that has brought the state to another claim has its VM name that one, and
    would write over it unseen.
    """
    before, after = (_read(document, STATE_CLAIM) for document in (old, new))
    if user.is_controller or after == before or not old:
        return
    at = Field("metadata").at("annotations").key(STATE_CLAIM)
    if not before:
        if after:
            yield unsupported_cause(at, f"{at}: only a restore of kvedge writes it: leave it out")
    elif after != "":
        text = (
            f'{at}: it names the claim with the state of TPM and UEFI firmware; keep it, or set it to "" for new ones'
        )
        yield unsupported_cause(at, text)
    elif _has_guest(old):
        yield unsupported_cause(at, f'{at}: the guest uses this claim: stop the VM, and then set it to ""')


def tpm_origin_is_ours(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """With the UID of another VM in it a VM passes for one that has that VM's TPM, and no backup brings this back; and
    without its own a second VM would get the TPM that it has.

    An administrator who recovers a box makes VMs as they were.
    """
    before, after = (_read(document, TPM_ORIGIN) or "" for document in (old, new))
    if user.is_controller or after == before or (not old and user.is_master):
        return
    at = Field("metadata").at("annotations").key(TPM_ORIGIN)
    if not before:
        yield unsupported_cause(at, f"{at}: only a restore of kvedge writes it: leave it out")
    elif after or _read(new, STATE_CLAIM) != "":
        text = (
            f'{at}: it says which VM had this TPM first; keep it, or remove it while {STATE_CLAIM} is "" for a new TPM'
        )
        yield unsupported_cause(at, text)


def resumed_machine_stays(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """The guest that goes on has the machine and the disks of its snapshot."""
    if user.is_controller or _read(old) is None or _read(new) is None or _template(old) == _template(new):
        return
    text = (
        "spec.template: the VM's next start goes on from saved memory, with the machine that it had: start it first, or"
        f" remove the annotation {RESUME_MEMORY}, and it boots"
    )
    yield unsupported_cause(Field("spec").at("template"), text)


def _read(document: JsonObject, name: str = RESUME_MEMORY) -> object:
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found.get(name) if isinstance(found, dict) else None


def _has_guest(document: JsonObject) -> bool:
    """Whether a VM or a VMI has one, as far as its status says; one that waits for a claim that is lost has none."""
    status = document.get("status")
    found = status if isinstance(status, dict) else {}
    return found.get("printableStatus") in _WITH_GUEST or found.get("phase") == "Running"


def _template(document: JsonObject) -> object:
    spec = document.get("spec")
    return spec.get("template") if isinstance(spec, dict) else None

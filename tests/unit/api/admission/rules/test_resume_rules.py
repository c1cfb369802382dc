"""No user says that a guest goes on from memory, and none changes the machine that is about to."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.rules.resume_rules import (
    resume_is_ours,
    resumed_machine_stays,
    state_claim_is_ours,
    tpm_origin_is_ours,
)
from kvedge.resources.disks.state_claims import STATE_CLAIM, TPM_ORIGIN
from kvedge.resources.role_users import CONTROLLER_GROUP, CONTROLLER_USER, MASTERS, UserInfo
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from tests.support.builders import small_vmi, vm_of

USER = UserInfo("somebody")


def a_vm(word: str | None = None, **spec: Any) -> Any:
    made = vm_of(small_vmi(**spec))
    made["metadata"]["annotations"] = {} if word is None else {RESUME_MEMORY: word}
    return made


def test_a_user_neither_writes_the_word_nor_changes_it() -> None:
    for old in (a_vm(), a_vm("memory 1"), {}):
        (cause,) = resume_is_ours(old, a_vm("memory 2"), USER)
        assert cause.field == f"metadata.annotations[{RESUME_MEMORY}]"


def test_a_user_may_keep_the_word_and_take_it_away() -> None:
    assert not list(resume_is_ours(a_vm("memory 1"), a_vm("memory 1"), USER))
    assert not list(resume_is_ours(a_vm("memory 1"), a_vm(), USER))


CONTROLLER = UserInfo(CONTROLLER_USER, (CONTROLLER_GROUP,))


def with_state(claim: str | None) -> Any:
    made = a_vm()
    made["metadata"]["annotations"] = {} if claim is None else {STATE_CLAIM: claim}
    return made


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (None, "another", "leave it out"),
        ("mine", "another", "keep it"),
        ("mine", None, "keep it"),
        ("mine", "mine", ""),
        ("mine", "", ""),
        ("", None, ""),
        ("", "mine", "leave it out"),
        (None, "", ""),
        (None, None, ""),
    ],
)
def test_a_user_gives_no_vm_the_tpm_of_another_one_and_loses_none_by_mistake(
    old: str | None, new: str | None, word: str
) -> None:
    assert not list(state_claim_is_ours({}, with_state(new), USER))
    causes = list(state_claim_is_ours(with_state(old), with_state(new), USER))
    assert [word in cause.message for cause in causes] == ([True] if word else [])
    assert not list(state_claim_is_ours(with_state(old), with_state(new), CONTROLLER))


@pytest.mark.parametrize(
    ("status", "is_refused"),
    [
        *(({"printableStatus": text}, True) for text in ("Running", "Paused", "Migrating", "Stopping")),
        *(({"printableStatus": text}, False) for text in ("Stopped", "Starting", "ErrorPvcNotFound", 1)),
        ({"phase": "Running"}, True),
        ({"phase": "Scheduling"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_new_tpm_is_asked_for_while_no_guest_has_the_old_one(status: Any, is_refused: bool) -> None:
    old, new = with_state("mine") | {"status": status}, with_state("") | {"status": status}
    causes = list(state_claim_is_ours(old, new, USER))
    assert ["stop the VM, and then" in cause.message for cause in causes] == [True] * is_refused
    # What says so already may go on saying so.
    assert not list(state_claim_is_ours(new, new, USER))
    assert not list(state_claim_is_ours(old, new, CONTROLLER))


def with_origin(origin: str | None, **more: str) -> Any:
    made = a_vm()
    made["metadata"]["annotations"] = {**({} if origin is None else {TPM_ORIGIN: origin}), **more}
    return made


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (with_origin(None), with_origin("another"), "leave it out"),
        ({}, with_origin("another"), "leave it out"),
        (with_origin("mine"), with_origin("another"), "keep it"),
        (with_origin("mine"), with_origin(None), "keep it"),
        (with_origin("mine"), with_origin("", **{STATE_CLAIM: "claim"}), "keep it"),
        (with_origin("mine", **{STATE_CLAIM: "claim"}), with_origin(None, **{STATE_CLAIM: ""}), ""),
        (with_origin("mine"), with_origin("another", **{STATE_CLAIM: ""}), "keep it"),
        (with_origin("mine"), with_origin("mine"), ""),
        ({}, with_origin(None), ""),
    ],
)
def test_a_user_lets_no_vm_pass_for_one_that_has_the_tpm_of_another(old: Any, new: Any, word: str) -> None:
    causes = list(tpm_origin_is_ours(old, new, USER))
    assert [(each.field, word in each.message) for each in causes] == (
        [(f"metadata.annotations[{TPM_ORIGIN}]", True)] if word else []
    )
    assert not list(tpm_origin_is_ours(old, new, CONTROLLER))


def test_an_administrator_who_recovers_a_box_makes_vms_with_the_tpm_that_they_had_and_changes_none() -> None:
    master = UserInfo("admin", (MASTERS,))
    assert not list(tpm_origin_is_ours({}, with_origin("mine"), master))
    assert list(tpm_origin_is_ours(with_origin(None), with_origin("mine"), master))


def test_the_machine_stays_while_the_word_is_there() -> None:
    changed = a_vm("memory 1", hostname="another")
    (cause,) = resumed_machine_stays(a_vm("memory 1"), changed, USER)
    assert cause.field == "spec.template"
    assert f"remove the annotation {RESUME_MEMORY}" in cause.message
    assert not list(resumed_machine_stays(a_vm("memory 1"), a_vm(hostname="another"), USER))
    assert not list(resumed_machine_stays(a_vm(), a_vm(hostname="another"), USER))


def test_how_it_runs_may_change() -> None:
    changed = a_vm("memory 1")
    changed["spec"]["runStrategy"] = "Always"
    assert not list(resumed_machine_stays(a_vm("memory 1"), changed, USER))

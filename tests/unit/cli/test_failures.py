"""What a verb ends with when the server refused: each cause with its field."""

from __future__ import annotations

from kvedge.cli.exits import Exit
from kvedge.cli.failures import explained
from kvedge.kube.errors import Cause, Invalid

FIELD = "spec.runStrategy"
DENIED = 'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: '


def test_a_webhooks_only_cause_is_told_with_its_field() -> None:
    error = Invalid(422, "Invalid", f"{DENIED}Invalid RunStrategy (x)", (Cause(FIELD, "", "Invalid RunStrategy (x)"),))
    assert explained(error).text == f"{DENIED}{FIELD}: Invalid RunStrategy (x)"
    assert explained(error).code == Exit.FAILED


def test_a_field_that_the_message_names_is_not_told_twice() -> None:
    text = f'VirtualMachine.kubevirt.io "w" is invalid: {FIELD}: Required value'
    assert explained(Invalid(422, "Invalid", text, (Cause(FIELD, "", "Required value"),))).text == text


def test_several_causes_are_a_list() -> None:
    causes = (Cause("spec.a", "", "no a"), Cause("spec.b", "", "no b"))
    assert explained(Invalid(422, "Invalid", f"{DENIED}no a, no b", causes)).text == (
        "refused:\n  * spec.a: no a\n  * spec.b: no b"
    )

"""What a verb ends with when the server refused: each cause with its field."""

from __future__ import annotations

import pytest

from kvedge.appliance.cluster import errors as cluster_errors
from kvedge.cli.exits import Exit
from kvedge.cli.failures import explain
from kvedge.client import errors
from kvedge.client.kubeconfigs import NoKubeconfig
from kvedge.kube.errors import Cause, Invalid

FIELD = "spec.runStrategy"
DENIED = 'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: '


def test_a_webhooks_only_cause_is_told_with_its_field() -> None:
    error = Invalid(422, "Invalid", f"{DENIED}Invalid RunStrategy (x)", (Cause(FIELD, "", "Invalid RunStrategy (x)"),))
    assert explain(error).text == f"{DENIED}{FIELD}: Invalid RunStrategy (x)"
    assert explain(error).code == Exit.FAILED


def test_a_field_that_the_message_names_is_not_told_twice() -> None:
    text = f'VirtualMachine.kubevirt.io "w" is invalid: {FIELD}: Required value'
    assert explain(Invalid(422, "Invalid", text, (Cause(FIELD, "", "Required value"),))).text == text


def test_several_causes_are_a_list() -> None:
    causes = (Cause("spec.a", "", "no a"), Cause("spec.b", "", "no b"))
    assert explain(Invalid(422, "Invalid", f"{DENIED}no a, no b", causes)).text == (
        "refused:\n  * spec.a: no a\n  * spec.b: no b"
    )


def test_what_a_server_says_at_length_is_cut() -> None:
    causes = tuple(Cause(f"spec.a[{number}]", "", "x" * 10_000) for number in range(1_000))
    text = explain(Invalid(422, "Invalid", f"{'x' * 10**6} is invalid: all", causes)).text
    assert text.endswith("  * and 950 more")
    assert len(text) < 300_000
    assert len(explain(Invalid(422, "Invalid", "x" * 10**6)).text) < 5_000


def test_a_cause_without_a_field_is_told_alone() -> None:
    causes = (Cause("spec.a", "", "no a"), Cause("", "", "there are more errors"))
    assert explain(Invalid(422, "Invalid", "is invalid: a", causes)).text.endswith("\n  * there are more errors")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.UsageError, Exit.USAGE),
        (NoKubeconfig, Exit.USAGE),
        (errors.NotFoundError, Exit.NOT_FOUND),
        (errors.TimedOutError, Exit.TIMED_OUT),
        (errors.HostError, Exit.HOST),
        (errors.RefusedError, Exit.FAILED),
        (cluster_errors.NoKubeconfigError, Exit.USAGE),
        (cluster_errors.UnknownNodeError, Exit.NOT_FOUND),
        (cluster_errors.UnfitError, Exit.HOST),
        (cluster_errors.SilentClusterError, Exit.FAILED),
    ],
)
def test_an_error_of_the_layers_below_keeps_its_text_and_gets_the_code_of_its_meaning(
    kind: type[errors.ClientError | cluster_errors.ClusterError], code: Exit
) -> None:
    told = explain(kind("what is wrong"))
    assert (told.text, told.code) == ("what is wrong", code)


def test_each_kind_of_error_of_the_client_has_a_case_above() -> None:
    kinds = set(errors.ClientError.__subclasses__())
    assert kinds == {
        errors.UsageError,
        errors.NotFoundError,
        errors.TimedOutError,
        errors.HostError,
        errors.RefusedError,
    }

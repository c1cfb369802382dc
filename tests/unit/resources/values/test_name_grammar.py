"""One grammar of names: the api role's rules and the embedded API's tell the same names apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.api.admission.rules import dns_names
from kvedge.resources.values.name_grammar import NO_KEY, NO_LABEL_VALUE, is_label
from kvedge.standalone.apiserver.wire import name_rules


@pytest.mark.parametrize(
    ("text", "good"),
    [("a", True), ("a-1", True), ("x" * 63, True), ("x" * 64, False), ("", False), ("A", False), ("a.b", False)],
)
def test_a_label_is_told_by_its_letters_and_its_length(text: str, good: bool) -> None:
    assert is_label(text) is good


def test_complaints_show_kubernetes_own_pattern_and_examples() -> None:
    assert NO_KEY.endswith(
        "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )
    assert NO_LABEL_VALUE.endswith("regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')")


@given(st.text("aZ0-._/é\n", max_size=70))
def test_both_servers_refuse_the_same_names(text: str) -> None:
    assert bool(dns_names.dns_label_complaints(text)) is bool(name_rules.dns_label(text))
    assert bool(dns_names.dns_subdomain_complaints(text)) is bool(name_rules.dns_subdomain(text))
    assert bool(dns_names.label_key_complaints(text)) is bool(name_rules.label_key(text))
    assert bool(dns_names.label_value_complaints(text)) is bool(name_rules.label_value(text))

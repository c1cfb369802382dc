"""Label and field selectors: what they select, what they refuse, and that printing one parses back to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.label_selectors import LabelSelector, Requirement
from kvedge.standalone.apiserver.kinds.field_labels import check_field_selector, field_value
from kvedge.standalone.apiserver.schema.selectors import (
    FieldSelector,
    FieldTerm,
    check_label_selector,
    label_selector_of,
    parse_field_selector,
    parse_label_selector,
)
from kvedge.standalone.apiserver.wire.api_errors import BadRequest

LABELS = {"app": "web", "tier": "front", "weight": "12"}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        pytest.param("", True, id="nothing asked"),
        pytest.param("app=web", True, id="equal"),
        pytest.param("app==web", True, id="equal, written twice"),
        pytest.param("app=db", False, id="another value"),
        pytest.param("app!=db", True, id="not equal"),
        pytest.param("missing!=db", True, id="not equal of an absent label"),
        pytest.param("app in (db, web)", True, id="in"),
        pytest.param("app notin (db,web)", False, id="notin"),
        pytest.param("missing notin (a)", True, id="notin of an absent label"),
        pytest.param("tier", True, id="exists"),
        pytest.param("!tier", False, id="must be absent"),
        pytest.param("!missing", True, id="is absent"),
        pytest.param("weight>11", True, id="greater"),
        pytest.param("weight<12", False, id="not less"),
        pytest.param("app>1", False, id="no number"),
        pytest.param("app=web,tier=back", False, id="all must hold"),
        pytest.param("missing=", False, id="the empty value is not absence"),
    ],
)
def test_a_label_selector_selects(text: str, selected: bool) -> None:
    assert parse_label_selector(text).matches(LABELS) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, >, <"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        (
            "a>b",
            'unable to parse requirement: values[0]: Invalid value: "b": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_selector_that_makes_no_sense_is_refused_in_the_words_of_kubernetes(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_label_selector(text)
    assert refused.value.message == message


def test_an_invalid_label_key_in_a_selector_is_named() -> None:
    with pytest.raises(BadRequest, match='<nil>: Invalid value: "-x": name part must consist of'):
        parse_label_selector("-x=1")


_keys = st.from_regex(
    r"([a-z][a-z0-9.]{0,8}[a-z]/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,6}[A-Za-z0-9])?", fullmatch=True
).filter(lambda key: ".." not in key and key not in {"in", "notin"})
_values = st.from_regex(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,6}[A-Za-z0-9])?)?", fullmatch=True)
_requirements = st.one_of(
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (value,)),
        _keys,
        st.sampled_from(["=", "==", "!="]),
        _values,
    ),
    st.builds(
        lambda key, operator, values: Requirement(key, operator, tuple(sorted(values))),
        _keys,
        st.sampled_from(["in", "notin"]),
        st.sets(_values, min_size=1),
    ),
    st.builds(lambda key, operator: Requirement(key, operator), _keys, st.sampled_from(["exists", "!"])),
    st.builds(
        lambda key, operator, number: Requirement(key, operator, (str(number),)),
        _keys,
        st.sampled_from([">", "<"]),
        st.integers(0, 2**63 - 1),
    ),
)


@given(st.lists(_requirements, max_size=4))
def test_a_printed_label_selector_parses_back_to_itself(requirements: list[Requirement]) -> None:
    selector = LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))
    assert parse_label_selector(str(selector)) == selector


@given(st.text(alphabet="ab=!(),<> in", max_size=20))
def test_any_text_is_either_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except BadRequest:
        return
    assert parse_label_selector(str(selector)) == selector


@given(
    st.lists(
        st.builds(FieldTerm, st.sampled_from(["metadata.name", "status.phase"]), st.text(max_size=8), st.booleans()),
        max_size=3,
    )
)
def test_a_printed_field_selector_parses_back_to_its_terms(terms: list[FieldTerm]) -> None:
    assert set(parse_field_selector(str(FieldSelector(tuple(terms)))).terms) == set(terms)


def selects(selector: FieldSelector, document: dict[str, object]) -> bool:
    return selector.matches(lambda path: field_value(document, path))


def test_field_selectors_compare_texts_and_know_what_absence_means() -> None:
    node = {"kind": "Node", "metadata": {"name": "n1"}, "spec": {}}
    assert selects(parse_field_selector("spec.unschedulable=false,metadata.name=n1"), node)
    assert not selects(parse_field_selector("metadata.name!=n1"), node)
    assert field_value({"spec": {"unschedulable": True}}, "spec.unschedulable") == "true"
    assert parse_field_selector("metadata.name=n1").exact("metadata.name") == "n1"
    assert parse_field_selector("metadata.name!=n1").exact("metadata.name") is None


def test_the_source_of_an_event_is_its_component() -> None:
    event = {"kind": "Event", "source": {"component": "kvedge-handler"}}
    assert selects(parse_field_selector("source=kvedge-handler"), event)


def test_a_field_that_a_kind_does_not_index_is_refused() -> None:
    check_field_selector(parse_field_selector("spec.nodeName=n"), "pods")
    check_field_selector(parse_field_selector("spec.size=n"), "boxes.example.com", ["spec.size"])
    with pytest.raises(BadRequest, match=r"field label not supported: spec\.nodeName"):
        check_field_selector(parse_field_selector("spec.nodeName=n"), "secrets")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_field_selector_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_field_selector(text)
    assert refused.value.message == message


def test_a_selector_object_selects_by_labels_and_expressions() -> None:
    document = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["back"]},
            {"key": "old", "operator": "DoesNotExist"},
        ],
    }
    assert label_selector_of(document).matches(LABELS)
    assert not label_selector_of(document).matches({**LABELS, "old": ""})
    assert label_selector_of(None).matches({})
    assert check_label_selector(document, "spec.selector") == []


def test_every_mistake_of_a_selector_object_is_named() -> None:
    document = {
        "matchLabels": {"a b": "x"},
        "matchExpressions": [
            {"key": "k", "operator": "In"},
            {"key": "k", "operator": "Exists", "values": ["v"]},
            {"key": "", "operator": "Near"},
        ],
    }
    errors = check_label_selector(document, "spec.selector")
    assert [error.field for error in errors] == [
        "spec.selector.matchLabels",
        "spec.selector.matchExpressions[0].values",
        "spec.selector.matchExpressions[1].values",
        "spec.selector.matchExpressions[2].operator",
        "spec.selector.matchExpressions[2].key",
        "spec.selector.matchExpressions[2].key",
    ]
    with pytest.raises(BadRequest, match='"Near" is not a valid label selector operator'):
        label_selector_of({"matchExpressions": [{"key": "k", "operator": "Near"}]})

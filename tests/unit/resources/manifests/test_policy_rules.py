"""What a rule means, from Kubernetes' documentation of RBAC, and against a naive reading of the same words."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.manifests.policy_rules import EVERYTHING, PolicyRule, find_uncovered, policy_rules


def rule(verbs: str, groups: str, resources: str, names: str = "") -> PolicyRule:
    """A rule of words; `core` is the group without a name."""
    spelled = tuple("" if group == "core" else group for group in groups.split())
    return PolicyRule(tuple(verbs.split()), spelled, tuple(resources.split()), tuple(names.split()))


@pytest.mark.parametrize(
    ("held", "verb", "group", "resource", "name", "allowed"),
    [
        (rule("get", "core", "pods"), "get", "", "pods", "a", True),
        (rule("get", "core", "pods"), "get", "", "pods", "", True),
        (rule("get", "core", "pods"), "list", "", "pods", "", False),
        (rule("get", "core", "pods"), "get", "apps", "pods", "a", False),
        (rule("get", "core", "pods"), "get", "", "pods/log", "a", False),
        (rule("get", "core", "pods/log"), "get", "", "pods/log", "a", True),
        (rule("get", "core", "pods/log"), "get", "", "pods", "a", False),
        (rule("get", "*", "*"), "get", "g", "things/part", "a", True),
        (rule("*", "core", "pods"), "whatever", "", "pods", "a", True),
        (rule("get", "core", "pods/*"), "get", "", "pods/log", "a", False),
        (rule("get", "g", "*/scale"), "get", "g", "things/scale", "a", True),
        (rule("get", "g", "*/scale"), "get", "g", "things", "a", False),
        (rule("get", "g", "*/scale"), "get", "g", "things/status", "a", False),
        (rule("get", "g", "*/scale"), "get", "g", "things/scale/more", "a", False),
        (rule("get", "g", "vmis/vnc"), "get", "g", "vmis/vnc/screenshot", "a", False),
        (rule("get", "g", "vmis/vnc/screenshot"), "get", "g", "vmis/vnc", "a", False),
        (rule("get", "core", "secrets", "mine"), "get", "", "secrets", "mine", True),
        (rule("get", "core", "secrets", "mine"), "get", "", "secrets", "yours", False),
        (rule("list", "core", "secrets", "mine"), "list", "", "secrets", "", False),
        (rule("create", "core", "secrets", "mine"), "create", "", "secrets", "", False),
        (rule("get", "core", "pod"), "get", "", "pods", "a", False),
        (rule("get", "*.io", "things"), "get", "a.io", "things", "a", False),
        (PolicyRule(("get",), urls=("*",)), "get", "", "pods", "a", False),
    ],
)
def test_a_rule_means_what_is_documented(
    held: PolicyRule, verb: str, group: str, resource: str, name: str, allowed: bool
) -> None:
    plural, _, subresource = resource.partition("/")
    assert held.means_resource(verb, group, plural, subresource, name) is allowed


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("/apis*", "/apis/g/v1", True),
        ("*", "/anything", True),
        ("/a/*/c", "/a/b/c", False),
        ("/*", "/anything", True),
    ],
)
def test_a_star_in_a_path_counts_at_its_end_only(url: str, path: str, allowed: bool) -> None:
    assert PolicyRule(("get",), urls=(url,)).means_path("get", path) is allowed
    assert not PolicyRule(("get",), urls=(url,)).means_path("post", path)


def test_a_rule_of_resources_says_nothing_of_paths() -> None:
    assert not PolicyRule(("*",), ("*",), ("*",)).means_path("get", "/healthz")


def test_a_role_is_read_as_it_was_written() -> None:
    written = [rule("get list", "core g", "pods things/part", "a b"), PolicyRule(("get",), urls=("/x",))]
    assert policy_rules([each.document() for each in written]) == tuple(written)
    assert policy_rules(None) == ()


@pytest.mark.parametrize(
    ("owned", "wanted", "held"),
    [
        (rule("get", "core", "pods"), rule("get", "core", "pods"), True),
        (rule("get list", "core", "pods services"), rule("list", "core", "services"), True),
        (rule("get", "core", "pods"), rule("get list", "core", "pods"), False),
        (rule("get", "core", "pods"), rule("get", "core", "pods", "a"), True),
        (rule("get", "core", "pods", "a"), rule("get", "core", "pods"), False),
        (rule("get", "core", "pods", "a"), rule("get", "core", "pods", "a b"), False),
        (rule("*", "*", "*"), rule("*", "*", "*"), True),
        (rule("get list watch create", "*", "*"), rule("*", "*", "*"), False),
        (rule("get", "core", "*"), rule("get", "core", "pods/log"), True),
        (rule("get", "core", "*/log"), rule("get", "core", "pods/log"), True),
        (rule("get", "core", "pods"), rule("get", "core", "pods/log"), False),
        (rule("get", "core", "pods/log"), rule("get", "core", "*/log"), False),
        (PolicyRule(("get",), urls=("/a/*",)), PolicyRule(("get",), urls=("/a/b",)), True),
        (PolicyRule(("get",), urls=("/a/*",)), PolicyRule(("get",), urls=("/a/b*",)), True),
        (PolicyRule(("get",), urls=("/a",)), PolicyRule(("get",), urls=("/a*",)), False),
        (rule("*", "*", "*"), PolicyRule(("get",), urls=("/a",)), False),
    ],
)
def test_rights_beyond_ones_own_are_found(owned: PolicyRule, wanted: PolicyRule, held: bool) -> None:
    assert (not find_uncovered([owned], [wanted])) is held


def test_rights_may_be_held_by_several_rules_together() -> None:
    owned = [rule("get", "core", "pods"), rule("list", "core", "pods"), rule("get list", "core", "services")]
    assert not find_uncovered(owned, [rule("get list", "core", "pods services")])
    assert find_uncovered(owned, [rule("get list watch", "core", "pods")]) == [rule("watch", "core", "pods")]


_WORDS = st.sampled_from(["a", "b", "*"])
_RESOURCES = st.sampled_from(["r", "s", "r/x", "s/x", "r/y", "*/x", "*"])
_TUPLES = st.lists(_WORDS, min_size=1, max_size=2).map(tuple)
RULES = st.builds(
    PolicyRule,
    verbs=_TUPLES,
    groups=_TUPLES,
    resources=st.lists(_RESOURCES, min_size=1, max_size=2).map(tuple),
    names=st.lists(st.sampled_from(["m", "n"]), max_size=2).map(tuple),
)
# Everything that can be asked with these words; `c` and `t` stand for what no rule names.
QUESTIONS = list(itertools.product("abc", "abc", "rst", ["", "x", "y"], ["", "m", "n"]))


def naive(held: PolicyRule, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
    """The documentation's words, one after the other."""
    full = f"{resource}/{subresource}" if subresource else resource
    named = [entry for entry in held.resources if entry == "*" or entry == full]
    if subresource:
        named += [entry for entry in held.resources if entry == "*/" + subresource]
    return (
        any(entry in ("*", verb) for entry in held.verbs)
        and any(entry in ("*", group) for entry in held.groups)
        and len(named) > 0
        and (len(held.names) == 0 or name in held.names)
    )


@given(RULES)
def test_a_rule_and_the_naive_reading_agree_on_every_question(held: PolicyRule) -> None:
    for question in QUESTIONS:
        assert held.means_resource(*question) is naive(held, *question), question


@given(st.lists(RULES, max_size=3), RULES)
def test_what_is_held_allows_everything_that_may_be_handed_on(owned: list[PolicyRule], wanted: PolicyRule) -> None:
    if find_uncovered(owned, [wanted]):
        return
    for question in QUESTIONS:
        if wanted.means_resource(*question):
            assert any(each.means_resource(*question) for each in owned), question


@given(RULES)
def test_everything_covers_every_rule_and_every_rule_itself(held: PolicyRule) -> None:
    assert not find_uncovered(EVERYTHING, [held])
    assert not find_uncovered([held], [held])

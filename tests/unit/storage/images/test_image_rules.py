from __future__ import annotations

import pytest

from kvedge.storage.images.image_names import parse_image_name
from kvedge.storage.images.image_rules import Origin, Pull, PullPolicy, Refuse, UseLocal, decide_pull, effective_policy

_NAME = parse_image_name("quay.io/a/b:1")
_FIXED = parse_image_name("quay.io/a/b@sha256:" + "0" * 64)
_LAUNCHER = parse_image_name("kvedge.local/launcher:1")


@pytest.mark.parametrize("policy", list(PullPolicy))
def test_an_imported_image_is_used_as_it_is_whatever_the_policy(policy: PullPolicy) -> None:
    decision = decide_pull(_NAME, policy, Origin.IMPORTED)

    assert isinstance(decision, UseLocal)
    assert "imported" in decision.note


def test_always_asks_the_registry_again_for_a_pulled_image_and_may_fall_back() -> None:
    assert decide_pull(_NAME, PullPolicy.ALWAYS, Origin.PULLED) == Pull(fallback=True)


def test_a_digest_cannot_change_so_always_asks_nobody() -> None:
    assert isinstance(decide_pull(_FIXED, PullPolicy.ALWAYS, Origin.PULLED), UseLocal)


@pytest.mark.parametrize("policy", [PullPolicy.IF_NOT_PRESENT, PullPolicy.NEVER])
def test_a_present_image_is_used_without_asking(policy: PullPolicy) -> None:
    assert isinstance(decide_pull(_NAME, policy, Origin.PULLED), UseLocal)


@pytest.mark.parametrize("policy", [PullPolicy.ALWAYS, PullPolicy.IF_NOT_PRESENT])
def test_a_missing_image_is_pulled_with_nothing_to_fall_back_to(policy: PullPolicy) -> None:
    assert decide_pull(_NAME, policy, None) == Pull(fallback=False)


def test_a_missing_image_with_never_is_refused_in_the_kubelets_words() -> None:
    decision = decide_pull(_NAME, PullPolicy.NEVER, None)

    assert decision == Refuse(
        "ErrImageNeverPull", 'Container image "quay.io/a/b:1" is not present with pull policy of Never'
    )


def test_our_own_images_are_never_looked_for_in_a_registry() -> None:
    decision = decide_pull(_LAUNCHER, PullPolicy.ALWAYS, None)

    assert isinstance(decision, Refuse)
    assert decision.reason == "ErrImageNeverPull"


def test_without_a_policy_latest_means_always_and_anything_else_if_not_present() -> None:
    assert effective_policy(parse_image_name("x"), "") is PullPolicy.ALWAYS
    assert effective_policy(parse_image_name("x:1"), "") is PullPolicy.IF_NOT_PRESENT
    assert effective_policy(_FIXED, "") is PullPolicy.IF_NOT_PRESENT
    assert effective_policy(_NAME, "Never") is PullPolicy.NEVER


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match="Sometimes"):
        effective_policy(_NAME, "Sometimes")

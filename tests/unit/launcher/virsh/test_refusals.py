"""What `virsh` tells people to use instead is there."""

from __future__ import annotations

import re

import pytest

from kvedge.cli.verbs import VERBS
from kvedge.launcher.virsh.refusals import REMEDIES, refusal


@pytest.mark.parametrize("verb", REMEDIES)
def test_each_remedy_is_a_command_that_there_is(verb: str) -> None:
    ours = re.findall(r"kvedge ([a-z-]+)", REMEDIES[verb])
    assert ours or REMEDIES[verb].startswith(("kubectl edit", "edit the VM: kubectl edit"))
    assert set(ours) <= set(VERBS)
    assert REMEDIES[verb] in refusal(verb, "list")


def test_a_verb_that_nobody_knows_is_answered_with_what_is_known() -> None:
    assert refusal("x" * 9, "list, dumpxml").endswith("does not know 'xxxxxxxxx'; it knows: list, dumpxml")

"""The names that two boxes share, and the VM that is held while its guest is another box's."""

from __future__ import annotations

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.moves.crossing import (
    MOVED_TO,
    MOVES_TO,
    crossing_server_name,
    describe_hold,
    is_crossing_id,
)
from kvedge.resources.types.vm import VirtualMachine
from kvedge.runtime.tls.certificates import handler_server_name

ID = "5f0c2a1e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("text", ["", "x", ID.upper(), f"{ID}/..", f"{ID}\n", ID.replace("-", "")])
def test_only_a_uuid_names_a_migration(text: str) -> None:
    assert not is_crossing_id(text)
    assert is_crossing_id(ID)


def test_no_node_has_the_name_that_lets_a_source_in() -> None:
    assert not crossing_server_name(ID).endswith(handler_server_name(""))


def test_a_vm_without_a_mark_starts() -> None:
    assert describe_hold(VirtualMachine(metadata=ObjectMeta(name="web"))) == ""


@pytest.mark.parametrize(("mark", "said"), [(MOVES_TO, "is moving to box-2"), (MOVED_TO, "has moved to box-2")])
def test_one_with_a_mark_says_where_its_guest_is_and_what_to_do(mark: str, said: str) -> None:
    held = VirtualMachine(metadata=ObjectMeta(name="web", namespace="default", annotations={mark: "box-2"}))
    assert said in describe_hold(held)
    assert "`kvedge migrate web --forget`" in describe_hold(held)

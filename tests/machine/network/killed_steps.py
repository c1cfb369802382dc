"""kill -9 between two steps of a binding, and the steps that a binding makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from kvedge.network.apply_step import apply_step
from kvedge.network.binding import bridge_binding
from kvedge.network.links import Links
from kvedge.network.steps import Step


class KilledError(Exception):
    """Stands for kill -9 between two steps."""


@contextmanager
def killed_after(
    monkeypatch: pytest.MonkeyPatch, count: int, binding: ModuleType = bridge_binding
) -> Iterator[list[Step]]:
    """Lets so many steps of a binding be made and dies before the next; none is too many for -1."""
    made: list[Step] = []

    def apply(links: Links, step: Step) -> None:
        if len(made) == count:
            raise KilledError
        made.append(step)
        apply_step(links, step)

    with monkeypatch.context() as patched:
        patched.setattr(binding, "apply_step", apply)
        yield made


@contextmanager
def steps_made(monkeypatch: pytest.MonkeyPatch, binding: ModuleType = bridge_binding) -> Iterator[list[Step]]:
    """The steps that bindings make meanwhile."""
    with killed_after(monkeypatch, -1, binding) as made:
        yield made

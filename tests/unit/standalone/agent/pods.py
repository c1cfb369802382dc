"""Container states for unit tests."""

from __future__ import annotations

from kvedge.standalone.agent.container.container_state import ContainerState, Ended, ExitRecord, Running

RUNNING: ContainerState = Running(100, 5, 1000.0)


def ended(code: int, reason: str = "") -> Ended:
    """A container that has ended with this code."""
    return Ended(
        ExitRecord(exit_code=code, reason=reason or ("Error" if code else "Completed"), finished_at=2000.0), 1000.0
    )

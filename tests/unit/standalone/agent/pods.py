"""Pods and container states for unit tests."""

from __future__ import annotations

from typing import Any

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Container, Pod, PodSpec, PodStatus
from kvedge.standalone.agent.container.container_state import ContainerState, Ended, ExitRecord, Running

RUNNING: ContainerState = Running(100, 5, 1000.0)


def ended(code: int, reason: str = "") -> Ended:
    """A container that has ended with this code."""
    return Ended(
        ExitRecord(exit_code=code, reason=reason or ("Error" if code else "Completed"), finished_at=2000.0), 1000.0
    )


def pod(*names: str, init: tuple[str, ...] = (), status: PodStatus | None = None, **spec: Any) -> Pod:
    """A bound Pod with these containers."""

    def made(name: str) -> Container:
        return Container(name=name, image="busybox", command=["true"])

    return Pod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="uid-1"),
        spec=PodSpec(
            containers=[made(name) for name in names or ("c",)],
            init_containers=[made(name) for name in init],
            node_name="box",
            restart_policy="Never",
            **spec,
        ),
        status=status or PodStatus(),
    )

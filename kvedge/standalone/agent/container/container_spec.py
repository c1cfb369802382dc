"""What the container starter is told: everything about one container, or one more process in it, decided before.

Made by the node agent (`container_plan`), handed over as JSON to the starter's process. Types only.
"""

from __future__ import annotations

from typing import TypedDict


class MountSpec(TypedDict):
    """One volume mount: `source` on the host, `sub_path` beneath it, `target` beneath the container's root."""

    source: str
    sub_path: str
    target: str
    read_only: bool
    # HostToContainer: mounts that appear below `source` later are seen inside.
    follow_host: bool


class DeviceSpec(TypedDict):
    """One device node: `host` is looked at for its numbers, `path` is where it appears, below /dev."""

    host: str
    path: str


class ProcessSpec(TypedDict):
    """What any process of a container is like, the first one and those that are started in it later."""

    # cgroup.procs files to join.
    cgroups: list[str]
    uid: int
    gid: int
    groups: list[int]
    # Without their CAP_ prefix: the bounding set, and what a root user has.
    capabilities: list[str]
    no_new_privileges: bool
    # Whether system calls that no container needs are refused.
    seccomp: bool
    oom_score_adj: int
    env: dict[str, str]
    # In the container.
    working_dir: str


class ContainerSpec(ProcessSpec):
    """One container; paths are the host's unless said otherwise."""

    # `<pod uid>/<container>`, for messages and the process list.
    id: str
    # Three files of the agent: who runs (JSON), who may start (flock), what it printed.
    record: str
    lock: str
    log: str
    # A FIFO that the agent reads: how the start went.
    answer: str
    # An empty directory of the agent; the container's file system is put together there, in its own mount namespace.
    stage: str
    # A named network namespace, or empty for the host's.
    netns: str
    hostname: str
    # The image's tree; it is never written.
    root: str
    # How much the container may write to its own root, in bytes of memory; 0 makes the root read-only.
    writable_bytes: int
    mounts: list[MountSpec]
    devices: list[DeviceSpec]
    sysctls: dict[str, str]
    argv: list[str]


class ExecSpec(ProcessSpec):
    """One more process in a container that runs."""

    # `<pod uid>/<container>`, for messages.
    id: str
    # A FIFO that the agent reads: how it ended.
    answer: str
    # The container's first process, as its record has it.
    pid: int
    start_time: int
    argv: list[str]
    # How long it may take; then it is killed.
    seconds: float


class SessionSpec(ProcessSpec):
    """One more process in a container that runs, with somebody at the other end of its streams."""

    # As in an ExecSpec.
    id: str
    answer: str
    pid: int
    start_time: int
    argv: list[str]
    # A socket on which the agent listens: the other ends of the process' streams go there.
    streams: str
    # Its streams are one terminal; else they are pipes.
    terminal: bool
    # Whether anything comes on its standard input; else that is /dev/null.
    stdin: bool


class ExecAnswer(TypedDict, total=False):
    """How such a process ended: a code, or that it took too long; or, in words, why there was none."""

    exit_code: int
    # The first kilobytes of what it printed.
    output: str
    late: bool
    error: str


class StartedRecord(TypedDict):
    """What the starter writes before the container's command runs: enough to find it again, and nothing else."""

    boot_id: str
    # The container's first process, seen from the host, and the clock tick at which it began.
    pid: int
    start_time: int
    # The process that keeps the first one's exit status readable.
    holder: int
    holder_start_time: int
    # Seconds since the epoch.
    started_at: float
    # Why the command could not be run; then nothing of the container ever ran.
    failed: str

"""Further processes in containers that run: what they see, what they may, and how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.standalone.agent.container.container_files import ContainerFiles
from kvedge.standalone.agent.container.container_spec import ExecAnswer, ExecSpec
from kvedge.standalone.agent.container.container_start import ContainerStartError
from kvedge.standalone.agent.container.container_state import signal_container
from tests.machine.agent.containers import Containers, containers, host_mounts, is_alive
from tests.support.waiting import wait_until


@pytest.fixture
def pod(tmp_path: Path, tree: Path) -> Iterator[Containers]:
    with containers(tmp_path, tree) as made:
        yield made
    assert host_mounts(tmp_path) == []


def execute(pod: Containers, files: ContainerFiles, *argv: str, seconds: float = 10.0, **changes: Any) -> ExecAnswer:
    record = pod.record(files)
    spec: ExecSpec = {
        "id": f"pod/{files.name}",
        "answer": str(files.probe("Liveness")),
        "pid": record["pid"],
        "start_time": record["start_time"],
        "argv": list(argv),
        "seconds": seconds,
        "cgroups": [],
        "uid": 107,
        "gid": 107,
        "groups": [107],
        "capabilities": [],
        "no_new_privileges": True,
        "seccomp": True,
        "oom_score_adj": 500,
        "env": {"PATH": "/bin", "A": "b c"},
        "working_dir": "/tmp",
    }
    spec.update(changes)  # type: ignore[typeddict-item]
    return pod.starter.execute(spec)


def shell(pod: Containers, files: ContainerFiles, script: str, **changes: Any) -> ExecAnswer:
    return execute(pod, files, "sh", "-c", script, **changes)


def test_a_process_runs_beside_the_first_one_as_the_container_s_user(pod: Containers) -> None:
    files = pod.start("c", "echo mine >/tmp/file; sleep 1000")
    answer = shell(pod, files, 'id; cat file; echo "$A"; ps -o pid,args | grep -c "[s]leep 1000"; exit 4')
    assert answer["exit_code"] == 4
    assert answer["output"].splitlines() == ["uid=107 gid=107 groups=107", "mine", "b c", "1"]


def test_it_sees_the_container_s_namespaces_and_no_others(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    names = "mnt uts ipc net cgroup pid"
    inside = shell(pod, files, f"for n in {names}; do readlink /proc/self/ns/$n; done")["output"].split()
    first = pod.record(files)["pid"]
    assert inside == [os.readlink(f"/proc/{first}/ns/{name}") for name in names.split()]


def test_it_may_no_more_than_the_container(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    answer = shell(pod, files, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; cat /proc/self/oom_score_adj")
    found = dict(line.split(":") for line in answer["output"].splitlines() if ":" in line)
    assert {found[name].strip() for name in found if name.startswith("Cap")} == {"0" * 16}
    assert (found["NoNewPrivs"].strip(), found["Seccomp"].strip()) == ("1", "2")
    assert answer["output"].splitlines()[-1] == "500"


def test_nothing_of_the_host_is_open_in_it(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    found = shell(pod, files, "ls -l /proc/self/fd")["output"]
    targets = sorted(line.partition("-> ")[2] for line in found.splitlines() if "->" in line)
    assert len(targets) == 3
    assert [target for target in targets if not target.startswith("pipe:")] == ["/dev/null"]


def test_a_command_that_takes_too_long_is_killed_with_its_children(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    begun = time.monotonic()
    answer = shell(pod, files, "echo waiting; sleep 777 & sleep 777", seconds=3)
    assert time.monotonic() - begun < 60
    assert (answer["late"], answer["output"]) == (True, "waiting\n")
    assert "777" not in shell(pod, files, "ps -o args")["output"].replace("ps -o args", "")


def test_what_it_leaves_behind_does_not_hold_it_up(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    begun = time.monotonic()
    answer = shell(pod, files, "echo done; sleep 100 & exit 0", seconds=80)
    assert time.monotonic() - begun < 60
    assert (answer["exit_code"], answer["output"]) == (0, "done\n")


def test_output_without_end_is_cut_and_read_away(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    answer = shell(pod, files, "yes abcdefg | head -c 5000000; exit 3")
    assert answer["exit_code"] == 3
    assert len(answer["output"]) == 10 << 10
    assert shell(pod, files, "yes", seconds=0.3)["late"]


def test_a_process_that_is_killed_has_the_signal_in_its_exit_code(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    assert shell(pod, files, "kill -9 $$")["exit_code"] == 137


def test_a_command_that_is_not_there_is_said(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    with pytest.raises(ContainerStartError, match=r"cannot run the command: No such file or directory \(nonsense\)"):
        execute(pod, files, "nonsense")
    with pytest.raises(ContainerStartError, match="no-such-place"):
        execute(pod, files, "true", working_dir="/no-such-place")


def test_a_container_that_has_ended_runs_nothing_more(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    signal_container(files, signal.SIGKILL, pod.boot)
    record = pod.record(files)
    pod.ended(files)
    with pytest.raises(ContainerStartError, match="container pod/c does not run"):
        execute(pod, files, "true")
    with pytest.raises(ContainerStartError, match="container pod/c does not run"):
        execute(pod, files, "true", pid=os.getpid(), start_time=record["start_time"])


def test_the_end_of_the_container_is_the_end_of_the_process(pod: Containers) -> None:
    files = pod.start("c", "sleep 1; exit 0")
    begun = time.monotonic()
    assert shell(pod, files, "sleep 100", seconds=80)["exit_code"] == 137
    assert time.monotonic() - begun < 60


def test_it_joins_the_container_s_cgroups(pod: Containers, tmp_path: Path) -> None:
    """A file stands for the kernel's: what is written there is told to join."""
    joined = tmp_path / "cgroup.procs"
    files = pod.start("c", "sleep 1000")
    execute(pod, files, "true", cgroups=[str(joined)])
    assert joined.read_text() == "0"


def test_the_starter_has_no_children_left_of_it(pod: Containers) -> None:
    files = pod.start("c", "sleep 1000")
    for _ in range(5):
        assert execute(pod, files, "true")["exit_code"] == 0
    starter = pod.starter._starter
    assert starter is not None
    children = f"/proc/{starter.pid}/task/{starter.pid}/children"
    first = str(pod.record(files)["holder"])
    wait_until(lambda: Path(children).read_text().split() == [first], "only the container's holder is left")
    assert is_alive(starter.pid)

"""Which containers may be copies of a warm parent, and how long a failed parent is left alone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.standalone.agent.container.container_spec import ContainerSpec
from kvedge.standalone.agent.warm.warm_plan import OwnProgram, may_be_warm, pause_after

PROGRAM = OwnProgram(("/opt/python", "-P", "-m", "kvedge"), ("/usr", "/opt"))
LAUNCHER = [*PROGRAM.command, "launcher", "--monitor", "--name", "a"]


def mount(path: str, **changes: Any) -> dict[str, Any]:
    return {"source": path, "target": path, "sub_path": "", "read_only": True, "follow_host": False, **changes}


USR, OPT = mount("/usr"), mount("/opt")


def spec(**changes: Any) -> ContainerSpec:
    env = {"PATH": "/usr/bin", "HOSTNAME": "a"}
    found = {"argv": LAUNCHER, "uid": 107, "env": env, "mounts": [USR, OPT, mount("/run")], **changes}
    return cast("ContainerSpec", found)


def test_a_launcher_of_this_program_may_be_a_copy() -> None:
    assert may_be_warm(spec(), PROGRAM)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"argv": [*PROGRAM.command, "launcher", "--name", "a"]}, id="without a monitor"),
        pytest.param({"argv": ["/opt/other", *LAUNCHER[1:]]}, id="of another version"),
        pytest.param({"argv": [*PROGRAM.command, "import-worker"]}, id="no launcher"),
        pytest.param({"argv": []}, id="without a word"),
        pytest.param({"uid": 0}, id="of root"),
        pytest.param({"mounts": [USR]}, id="without the program"),
        pytest.param({"mounts": [USR, mount("/opt", source="/srv")]}, id="with another program in its place"),
        pytest.param({"mounts": [USR, mount("/opt", sub_path="x")]}, id="with a part of the program"),
        pytest.param({"mounts": [USR, mount("/opt", read_only=False)]}, id="with a program that it may change"),
        pytest.param({"argv": [*LAUNCHER, "x" * 2048]}, id="with more words than there is room for"),
        pytest.param({"env": {"DEVICES": "0000:00:00.0," * 400}}, id="with more variables than there is room for"),
        pytest.param({"env": {"LIBVIRT_DEBUG": "1"}}, id="libvirt's own variable"),
        pytest.param({"env": {"PYTHONMALLOC": "debug"}}, id="Python's own variable"),
        pytest.param({"env": {"LD_PRELOAD": "x"}}, id="the linker's own variable"),
        pytest.param({"env": {"LANG": "de_DE.UTF-8"}}, id="a locale"),
    ],
)
def test_what_a_copy_could_not_have_or_be_starts_apart(changes: dict[str, Any]) -> None:
    assert not may_be_warm(spec(**changes), PROGRAM)


def test_pauses_grow_and_have_an_end() -> None:
    assert [pause_after(count) for count in (0, 1, 2, 3, 50)] == [0, 2, 4, 8, 300]

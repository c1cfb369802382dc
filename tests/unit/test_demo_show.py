# Tests: packaging/demo_show
"""What packaging/demo_show removes, and what it prints: the script itself, without a box."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.checkout_clone import REPOSITORY

Load = Callable[..., ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load the script as it is with these variables; what it calls is noted in `calls`."""

    def loaded(**variables: str) -> Any:
        for name in ("DEMO_DIR", "DEMO_CACHE", "DEMO_POD_CIDR", "DEMO_SERVICE_CIDR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        loader = importlib.machinery.SourceFileLoader("demo_show", str(REPOSITORY / "packaging/demo_show"))
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        module: Any = importlib.util.module_from_spec(spec)
        monkeypatch.setattr("sys.dont_write_bytecode", True)
        loader.exec_module(module)
        module.calls = []
        module.call = module.calls.append
        return module

    return loaded


def test_a_directory_that_the_demo_has_not_made_is_never_removed(load: Load, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    demo = load(DEMO_DIR=str(tmp_path))
    with pytest.raises(demo.DemoError, match="is not a directory of the demo"):
        demo.stop(demo.Steps())
    with pytest.raises(demo.DemoError, match="set DEMO_DIR to a new directory"):
        demo.make_directory()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    assert demo.calls == [], "nothing that runs from there was ended either"


def test_the_demos_own_directory_is_taken_again_and_removed(load: Load, tmp_path: Path) -> None:
    data = tmp_path / "a" / "data"
    demo = load(DEMO_DIR=str(data))
    for _ in range(2):
        demo.make_directory()
        (data / "objects.db").write_text("x")
    demo.stop(demo.Steps())
    assert not data.exists()
    assert data.parent.exists()
    assert [command[3] for command in demo.calls] == ["killall"]


def test_the_commands_that_are_shown_work_as_they_stand_there(load: Load, tmp_path: Path) -> None:
    data = tmp_path / "it's here"
    demo = load(DEMO_DIR=str(data), DEMO_POD_CIDR="10.9.0.0/24")
    lines = [shlex.split(line) for line in demo.how_to_go_on("10.9.0.2").splitlines() if line.startswith("    ")]
    assert [f"DEMO_DIR={data}", "DEMO_POD_CIDR=10.9.0.0/24", f"{REPOSITORY}/packaging/demo", "--stop"] in lines
    assert ["export", f"KUBECONFIG={data}/kubeconfig"] in lines
    assert any(line[-2:] == ["--kubeconfig", f"{data}/kubeconfig"] for line in lines)


def test_who_has_chosen_nothing_is_shown_the_bare_command(load: Load) -> None:
    last = load().how_to_go_on("10.9.0.2").splitlines()[-1]
    assert shlex.split(last) == [f"{REPOSITORY}/packaging/demo", "--stop"]


ODD = "[/root/kvedge] [red]x[/red] :smile: a[b] \\[c"


def test_nothing_that_is_told_is_taken_for_markup(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    demo = load(DEMO_DIR=str(tmp_path / "[/a] [b]"), COLUMNS="300")
    steps = demo.Steps()
    steps.say(ODD, "green")

    def fails(steps: object) -> None:
        raise demo.DemoError(ODD)

    demo.make_directory()
    demo.LOG.write_text(f"{ODD} in the log\n")
    monkeypatch.setattr(demo, "show", fails)
    monkeypatch.setattr("sys.argv", ["demo_show"])
    assert demo.main() == 1
    vmi = demo.VirtualMachineInstance()
    vmi.status.node_name = ODD
    demo.console.print(demo.result_table(vmi, ODD, 1.0, 1.0))
    demo.console.print(demo.how_to_go_on("10.9.0.2"))
    told = capsys.readouterr().out
    for expected in (f"s  {ODD}\n", f"The demo failed: {ODD}\n", f"{demo.LOG}:\n", f"{ODD} in the log"):
        assert expected in told
    assert f"KUBECONFIG='{demo.KUBECONFIG}'\n" in told
    assert told.count(ODD) == 5


def test_a_disk_is_found_in_the_guests_list_by_its_serial_number(load: Load) -> None:
    demo = load()
    page = "disk=/dev/vda bytes=1048576 serial=STARTS\ndisk=/dev/vdb bytes=366592 serial=\n"
    assert demo.disk_of(page, "demo-extra") == ""
    page += "disk=/dev/sda bytes=268435456 serial=demo-extra\n"
    assert demo.disk_of(page, "demo-extra") == "/dev/sda, 256 MiB, serial number demo-extra"


@pytest.mark.skipif(os.geteuid() != 0, reason="the demo is for root alone")
@pytest.mark.skipif(
    os.getuid() != 0 or not (REPOSITORY / ".venv/bin/python").exists(),
    reason="needs root and the environment of the demo, which `tests/run unit` does not make",
)
def test_a_relative_directory_is_one_of_where_the_user_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = subprocess.run(
        [REPOSITORY / "packaging/demo", "--stop"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "DEMO_DIR": "mine", "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert f"{tmp_path}/mine is not a directory of the demo" in done.stdout

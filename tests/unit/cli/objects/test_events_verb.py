# Tests: kvedge/client/events.py
"""`kvedge events`: of all or of one VM, as lines or JSON, and nothing twice when a server goes away and comes back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvedge.cli.group import run
from kvedge.client.events import event_line, follow_events, is_of_vm
from kvedge.client.kubeconfigs import load_kubeconfigs
from kvedge.client.session import connect
from kvedge.kube.errors import Forbidden
from kvedge.resources.codec import decode
from kvedge.resources.types.core import Event
from tests.support.scripted_api import Exchange, scripted_api


def an_event(number: int, kind: str = "VirtualMachine", name: str = "web", **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"e{number}", "namespace": "default", "uid": f"u{number}"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "default"},
        "type": "Normal",
        "reason": "Started",
        "message": f"message {number}",
        "count": 1,
        "lastTimestamp": f"2026-05-01T12:00:{number:02}Z",
        **fields,
    }


class Server:
    """Lists, and then one watch after the other; after the last one it refuses."""

    def __init__(self, *listed: list[dict[str, Any]], watched: list[list[dict[str, Any]] | int] | None = None) -> None:
        self.listed = iter(itertools.chain(listed, itertools.repeat(listed[-1])))
        self.watched = iter(watched or [])

    def answer(self, exchange: Exchange) -> None:
        if exchange.request.query.get("watch") != "true":
            exchange.answer(200, {"metadata": {"resourceVersion": "7"}, "items": next(self.listed)})
            return
        changes = next(self.watched, 403)
        if isinstance(changes, int):
            exchange.answer(changes, {"kind": "Status", "code": changes, "message": "the end"})
            return
        exchange.begin()
        exchange.say(*(msgspec.json.encode({"type": "ADDED", "object": each}) + b"\n" for each in changes))
        exchange.finish()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    listed = [an_event(2, type="Warning"), an_event(1), an_event(3, name="db"), an_event(4, "Node", "box")]
    with scripted_api(Server(listed).answer) as server:
        yield server.write_kubeconfig(tmp_path / "kubeconfig")


def shown(capsys: pytest.CaptureFixture[str], *args: object) -> list[str]:
    assert run(["events", *map(str, args)]) == 0
    return capsys.readouterr().out.splitlines()


def test_all_are_shown_the_oldest_first(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--kubeconfig", kubeconfig)
    assert lines[0] == "2026-05-01T12:00:01Z  Normal   Started  VirtualMachine web: message 1"
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["1", "2", "3", "4"]


def test_one_vms_warnings_and_programs_get_json(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [line] = shown(capsys, "web", "--warnings", "-o", "json", "--kubeconfig", kubeconfig)
    assert json.loads(line)["message"] == "message 2"
    assert shown(capsys, "--since", "1h", "--kubeconfig", kubeconfig) == []


def test_what_makes_no_sense_is_refused(kubeconfig: Path) -> None:
    assert run(["events", "--since", "long", "--kubeconfig", str(kubeconfig)]) == 2
    assert run(["events", "web", "-A", "--kubeconfig", str(kubeconfig)]) == 2


@pytest.mark.parametrize(
    ("kind", "name", "is_its"),
    [
        ("VirtualMachineInstance", "web", True),
        ("Pod", "virt-launcher-web-abc23", True),
        ("Pod", "virt-launcher-web-db-abc23", False),
        ("Pod", "virt-launcher-web", False),
        ("Pod", "web", False),
        ("Node", "web", False),
        ("VirtualMachine", "web2", False),
    ],
)
def test_what_belongs_to_a_vm(kind: str, name: str, is_its: bool) -> None:
    assert is_of_vm(decode(Event, an_event(1, kind, name)), "web") == is_its


def test_a_long_name_is_found_by_what_is_left_of_it() -> None:
    vm = "w" * 60
    assert is_of_vm(decode(Event, an_event(1, "Pod", f"virt-launcher-{'w' * 43}-abc23")), vm)


def test_a_line_is_one_line_and_harmless() -> None:
    event = decode(Event, an_event(1, message="a\nb \x1b[31mred", count=3))
    assert event_line(event).endswith("VirtualMachine web: a b red (x3)")


def test_what_comes_is_told_once_also_when_the_server_goes_away(tmp_path: Path) -> None:
    again = an_event(1, count=2)
    script = Server(
        [an_event(1)],
        [an_event(1), an_event(2), an_event(3)],
        watched=[[an_event(2)], 503, 410, [again]],
    )
    pauses: list[float] = []
    with scripted_api(script.answer) as server:
        path = server.write_kubeconfig(tmp_path / "kubeconfig")
        session = connect(load_kubeconfigs([path], None))
        told: list[str] = []

        def follow() -> None:
            for event in follow_events(session, "default", follow=True, pause=pauses.append):
                told.append(f"{event.metadata.name}x{event.count}")

        with pytest.raises(Forbidden):
            follow()
    assert told[:3] == ["e1x1", "e2x1", "e3x1"]
    assert told.count("e1x2") == 1
    assert pauses

"""What installing, upgrading, going back and uninstalling do to a host, as lists of steps."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import yaml

from kvedge.appliance.host.layout import ALL_UNITS, Layout, role_units
from kvedge.appliance.host.unit_files import unit_directory, unit_texts
from kvedge.appliance.install.install_plan import (
    InstallFacts,
    OwnFile,
    new_config,
    plan_install,
    plan_uninstall,
    plan_way_back,
)
from kvedge.appliance.install.install_steps import (
    CopyFile,
    MakeDirectory,
    Remove,
    Step,
    Systemctl,
    WriteFile,
    carry_out,
)
from kvedge.appliance.install.installation import Pending, read_kept_files, way_back_of_state
from kvedge.runtime.settings import load_settings, setting_facts
from tests.support.values import replace

LAYOUT = Layout()
UNITS = unit_texts(role_units("standalone"))
EMPTY = InstallFacts(
    source=Path("/home/ops/kvedge-0.2"),
    source_digest="new",
    installed_digest="",
    running="nothing",
    units={},
    config_exists=False,
    modules=b"",
    data_layout=None,
)


def texts(steps: list[Step]) -> list[str]:
    return [step.text for step in steps]


def in_place() -> InstallFacts:
    """The host after the steps of a first installation."""
    steps = plan_install(EMPTY, LAYOUT, "standalone", UNITS, b"")
    written = {step.path: step.content for step in steps if isinstance(step, WriteFile)}
    units = {path.name: content for path, content in written.items() if path.parent == LAYOUT.units}
    return replace(
        EMPTY,
        installed_digest="new",
        running="this",
        units=units,
        config_exists=True,
        modules=written[LAYOUT.modules],
        data_layout=b"1\n",
    )


def test_a_first_installation_copies_writes_enables_and_starts_in_that_order() -> None:
    found = texts(plan_install(EMPTY, LAYOUT, "standalone", UNITS, b"x"))
    order = [
        "copy /home/ops/kvedge-0.2 to /usr/local/bin/kvedge",
        "write /etc/kvedge/config.yaml",
        "write /etc/systemd/system/kvedge.service",
        "systemctl daemon-reload",
        "systemctl enable --quiet kvedge.target kvedge-guests.service kvedge.service",
        "systemctl start kvedge.service",
    ]
    assert [found.index(text) for text in order] == sorted(found.index(text) for text in order)


def test_where_all_is_in_place_nothing_is_written_and_nothing_restarted() -> None:
    steps = plan_install(in_place(), LAYOUT, "standalone", UNITS, b"")
    assert not [step for step in steps if isinstance(step, WriteFile | CopyFile | Remove)]
    assert not [text for text in texts(steps) if "restart" in text or "daemon-reload" in text]


def test_an_upgrade_keeps_what_it_replaces_before_it_replaces_it() -> None:
    facts = replace(in_place(), installed_digest="old", running="another")
    found = texts(plan_install(facts, LAYOUT, "standalone", UNITS, b""))
    kept = found.index("copy /usr/local/bin/kvedge to /var/lib/kvedge/previous/kvedge")
    assert kept < found.index("copy /home/ops/kvedge-0.2 to /usr/local/bin/kvedge")
    assert "write /var/lib/kvedge/previous/kvedge.service" in found[: kept + 10]
    assert "write /var/lib/kvedge/previous/layout" in found
    assert "systemctl restart kvedge.service" in found


def test_a_users_settings_are_never_overwritten() -> None:
    facts = replace(EMPTY, config_exists=True)
    assert "write /etc/kvedge/config.yaml" not in texts(plan_install(facts, LAYOUT, "standalone", UNITS, b"x"))


def test_an_interrupted_upgrade_that_has_copied_the_program_still_restarts_what_runs() -> None:
    facts = replace(in_place(), running="another")
    found = texts(plan_install(facts, LAYOUT, "standalone", UNITS, b""))
    assert "systemctl restart kvedge.service" in found
    # What is kept is the version before, not this one.
    assert not [text for text in found if "previous" in text]


def test_the_units_of_another_role_are_stopped_and_removed() -> None:
    facts = replace(EMPTY, units={"kvedge-node.service": b""})
    found = texts(plan_install(facts, LAYOUT, "standalone", UNITS, b""))
    assert found.index("systemctl disable --now --quiet kvedge-node.service") < found.index(
        "remove /etc/systemd/system/kvedge-node.service"
    )


def test_the_way_back_restores_program_and_units_and_drops_new_ones() -> None:
    facts = replace(in_place(), units={**in_place().units, "kvedge-node.service": b"new"})
    previous = {"kvedge.service": b"old"}
    steps = plan_way_back(facts, LAYOUT, "standalone", previous, "old")
    assert steps[0] == CopyFile(LAYOUT.previous / "kvedge", LAYOUT.program)
    assert WriteFile(LAYOUT.units / "kvedge.service", b"old") in steps
    assert Remove(LAYOUT.units / "kvedge-node.service") in steps
    assert isinstance(steps[-1], Systemctl)
    assert steps[-1].arguments == ("restart", "kvedge.service")


def test_the_way_back_brings_files_back_that_the_new_version_had_replaced_or_removed(tmp_path: Path) -> None:
    layout = Layout(data_dir=tmp_path / "data", root=tmp_path)
    handler, units = layout.roles / "handler", unit_texts(role_units("agent"))
    there = {handler: b"its own", layout.node_settings: b"old", layout.roles / "api": b"as it is"}
    own = [
        OwnFile(handler, None),
        OwnFile(layout.node_settings, b"new"),
        OwnFile(layout.roles / "api", b"as it is", 0o600),
        OwnFile(tmp_path / "image", b"brought"),
    ]
    carry_out([WriteFile(path, content) for path, content in there.items()], lambda text: None)
    # Of an upgrade long ago.
    carry_out([WriteFile(layout.previous_own / "etc/stale", b"stale")], lambda text: None)
    facts = replace(EMPTY, installed_digest="old", running="another", units=units, own=there)
    carry_out(on_files(plan_install(facts, layout, "agent", units, b"", own)), lambda text: None)
    assert (handler.exists(), layout.node_settings.read_bytes()) == (False, b"new")
    assert read_kept_files(layout) == {handler: b"its own", layout.node_settings: b"old"}
    assert layout.previous_own.stat().st_mode & 0o777 == 0o700

    now = {file.path: file.path.read_bytes() for file in own if file.path.exists()}
    steps = plan_way_back(replace(facts, own=now), layout, "agent", units, "old", read_kept_files(layout))
    carry_out(on_files(steps), lambda text: None)
    assert {path: path.read_bytes() for path in there} == there
    assert handler.stat().st_mode & 0o777 == 0o600
    assert layout.node_settings.stat().st_mode & 0o777 == 0o644


def on_files(steps: list[Step]) -> list[Step]:
    """Those that can be carried out without a host and without a program."""
    return [step for step in steps if isinstance(step, WriteFile | Remove | MakeDirectory)]


def test_the_way_back_from_an_upgrade_that_has_replaced_nothing_touches_nothing() -> None:
    facts = replace(in_place(), installed_digest="old", running="another")
    steps = plan_way_back(facts, LAYOUT, "standalone", facts.units, "old")
    assert texts(steps) == ["systemctl start kvedge.service"]


OLD, NEW = "1 0.1.0\n", "2 0.2.0\n"
COPIES = {
    "kvedge-20251229T080000Z-r1000-0.2.0.db": "an earlier attempt",
    "kvedge-20260101T080000Z-r4000-0.1.0.db": "older",
    "kvedge-20260102T080005Z-r5000-0.2.0.db": "as the new version found it",
    "kvedge-20260102T080105Z-r5200-0.2.0.db": "as the new version left it",
}
PENDING = Pending(from_digest="a", to_digest="b", to_version="0.2.0", begun="20260102T080000Z")


def data_directory(at: Path, marks: tuple[str, str]) -> Layout:
    """One with a failed upgrade; `marks` are of the version before and of the present one."""
    files = {"previous/layout": marks[0], "state/layout": marks[1], "state/kvedge.db": "new", "state/kvedge.db-wal": ""}
    for path, text in {**files, **{f"backup/{name}": text for name, text in COPIES.items()}}.items():
        (at / path).parent.mkdir(exist_ok=True)
        (at / path).write_text(text)
    return Layout(data_dir=at)


def test_objects_are_put_back_when_the_format_of_the_data_directory_has_changed(tmp_path: Path) -> None:
    layout = data_directory(tmp_path, (OLD, NEW))
    steps = way_back_of_state(layout, PENDING)
    assert texts(steps)[0] == "systemctl stop kvedge.service"
    carry_out(steps[1:], lambda text: None)
    assert (tmp_path / "state/kvedge.db").read_text() == "as the new version found it"
    assert not (tmp_path / "state/kvedge.db-wal").exists()
    assert (tmp_path / "state/replaced-20260102T080000Z/kvedge.db").read_text() == "new"
    assert (tmp_path / "state/layout").read_text() == OLD
    assert way_back_of_state(layout, PENDING) == []


@pytest.mark.parametrize("present", ["1 0.2.0\n", "1 0.1.0\n", "1\n"])
def test_objects_stay_when_the_format_is_what_it_was(tmp_path: Path, present: str) -> None:
    assert way_back_of_state(data_directory(tmp_path, (OLD, present)), PENDING) == []


def test_copies_of_earlier_attempts_are_not_put_back(tmp_path: Path) -> None:
    layout = data_directory(tmp_path, (OLD, NEW))
    assert way_back_of_state(layout, msgspec.structs.replace(PENDING, begun="20260103T000000Z")) == []


def test_uninstalling_stops_the_daemon_before_the_guests_end_and_removes_itself_last() -> None:
    first, last = plan_uninstall(in_place(), LAYOUT)
    assert "systemctl disable --now --quiet kvedge.service" in texts(first)
    assert not [text for text in texts(first) if "guests" in text]
    assert texts(last)[-2:] == ["remove /usr/local/bin/kvedge", "remove /var/lib/kvedge/data"]
    removed = {step.path.name for step in last if isinstance(step, Remove)}
    assert set(role_units("standalone")) <= removed


def test_uninstalling_what_is_not_installed_calls_nobody() -> None:
    first, last = plan_uninstall(EMPTY, LAYOUT)
    assert first == []
    assert not [step for step in last if isinstance(step, Systemctl)]


def test_a_new_settings_file_shows_every_setting_and_is_read_back_as_given(tmp_path: Path) -> None:
    text = new_config(setting_facts(), {"data-dir": "/srv/kvedge"})
    assert all(facts.description in text.decode() for facts in setting_facts())
    assert yaml.safe_load(text) == {"data-dir": "/srv/kvedge"}
    (tmp_path / "config.yaml").write_bytes(text)
    assert load_settings(tmp_path / "config.yaml", {}, {}).data_dir == "/srv/kvedge"


def test_files_are_replaced_whole_and_keep_nothing_half_written(tmp_path: Path) -> None:
    target = tmp_path / "etc" / "x"
    carry_out([WriteFile(target, b"one", 0o600), WriteFile(target, b"two")], lambda text: None)
    assert target.read_bytes() == b"two"
    assert target.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in target.parent.iterdir()] == ["x"]


def test_every_unit_is_known_and_ships() -> None:
    assert set(unit_texts(ALL_UNITS)) == {path.name for path in unit_directory().iterdir()} - {"README.md"}


def test_a_pending_upgrade_survives_its_file() -> None:
    pending = Pending(from_digest="a", to_digest="b", to_version="0.2.0")
    assert msgspec.json.decode(msgspec.json.encode(pending), type=Pending) == pending

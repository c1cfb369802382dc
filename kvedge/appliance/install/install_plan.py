"""What must be done so that this program is the one installed here: facts in, steps out. Pure.

Called by `install`. Running it on a host where all is in place yields only the steps that make sure that it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct, field

from kvedge.appliance.host.launcher_link import LINK
from kvedge.appliance.host.layout import ALL_UNITS, TARGET, Layout, Role, list_enabled_units, main_unit, role_units
from kvedge.appliance.host.own_file import OwnFile
from kvedge.appliance.install.install_steps import (
    CopyFile,
    LoadModules,
    MakeDirectory,
    Remove,
    RemoveTrees,
    Step,
    Systemctl,
    WriteFile,
)
from kvedge.runtime.settings import SettingFacts

MODULES: Final = ("tun", "vhost_net", "bridge", "veth", "nf_tables", "kvm", "kvm_intel", "kvm_amd")
# The unit says READY when all serves: the first start takes longest. See TimeoutStartSec in the units.
START_SECONDS: Final = 200.0


class InstallFacts(Struct, frozen=True):
    """What is on this host: digests are SHA-256 in hex, empty for a file that is not there."""

    source: Path
    source_digest: str
    installed_digest: str
    # The program that the main unit runs: none, this very one, or another one.
    running: Literal["nothing", "this", "another"]
    units: Mapping[str, bytes]
    config_exists: bool
    modules: bytes
    # The mark of the data directory's format; None for one that is not there.
    data_layout: bytes | None
    # Those of our files that are there.
    own: Mapping[Path, bytes] = field(default_factory=dict)


def plan_install(
    facts: InstallFacts,
    layout: Layout,
    role: Role,
    units: Mapping[str, bytes],
    config: bytes,
    own: Sequence[OwnFile] = (),
) -> list[Step]:
    """The steps.

    `units` are the texts that ship with this program, `config` what a new settings file says, `own` what else a role
    needs here.
    """
    replaced = [file.path for file in own if facts.own.get(file.path) != file.content]
    kept = {path: facts.own[path] for path in replaced if path in facts.own}
    steps = [*_files(facts, layout, role, units, config, kept), *_own(facts, layout, own)]
    changed = {name for name in role_units(role) if facts.units.get(name) != units[name]}
    obsolete = [name for name in ALL_UNITS if name in facts.units and name not in role_units(role)]
    for name in obsolete:
        # Of another role: it must not run beside this one.
        steps += [Systemctl(("disable", "--now", "--quiet", name)), Remove(layout.units / name)]
    if changed or obsolete:
        steps.append(Systemctl(("daemon-reload",)))
    steps.append(Systemctl(("enable", "--quiet", *list_enabled_units(role))))
    is_changed = main_unit(role) in changed or any(facts.own.get(file.path) != file.content for file in own)
    is_old = facts.running == "another" or (facts.running == "this" and is_changed)
    # Guests are no part of the unit: a restart does not touch them.
    verb = "restart" if is_old else "start"
    steps += [Systemctl((verb, main_unit(role)), START_SECONDS), Systemctl(("start", TARGET), START_SECONDS)]
    # A timer that waits goes on with the times of the unit file that it was read from.
    steps += [Systemctl(("restart", name)) for name in list_enabled_units(role) if name in changed and _is_timer(name)]
    return steps


def _files(
    facts: InstallFacts,
    layout: Layout,
    role: Role,
    units: Mapping[str, bytes],
    config: bytes,
    kept: Mapping[Path, bytes],
) -> Iterator[Step]:
    yield MakeDirectory(layout.config.parent)
    yield MakeDirectory(layout.data_dir)
    if facts.installed_digest != facts.source_digest:
        if facts.installed_digest:
            yield from _keep(facts, layout, kept)
        yield CopyFile(facts.source, layout.program)
    if not facts.config_exists:
        yield WriteFile(layout.config, config)
    modules = "".join(f"{name}\n" for name in MODULES).encode()
    if facts.modules != modules:
        yield WriteFile(layout.modules, modules)
    yield LoadModules(MODULES)
    for name in role_units(role):
        if facts.units.get(name) != units[name]:
            yield WriteFile(layout.units / name, units[name])


def _own(facts: InstallFacts, layout: Layout, own: Sequence[OwnFile]) -> Iterator[Step]:
    for file in own:
        if facts.own.get(file.path) == file.content:
            continue
        if file.content is None:
            yield Remove(file.path)
            continue
        # Keys are among them: the directory is closed before the first one is written.
        yield MakeDirectory(file.path.parent, 0o700 if file.path.parent == layout.roles else 0o755)
        yield WriteFile(file.path, file.content, file.mode)


def _keep(facts: InstallFacts, layout: Layout, own: Mapping[Path, bytes]) -> Iterator[Step]:
    """Of what is replaced or removed, all that is needed to go back."""
    yield MakeDirectory(layout.previous, 0o755)
    # Of the upgrade before this one.
    yield Remove(layout.previous_own)
    yield CopyFile(layout.program, layout.previous / "kvedge")
    for name, content in facts.units.items():
        yield WriteFile(layout.previous / name, content)
    if facts.data_layout is not None:
        yield WriteFile(layout.previous / "layout", facts.data_layout)
    if own:
        # Keys may be among them.
        yield MakeDirectory(layout.previous_own, 0o700)
    for path, content in own.items():
        # The older program may not know a setting of the newer one, or may need one that the newer does without.
        yield WriteFile(layout.previous_own / path.relative_to("/"), content, 0o600)


def plan_way_back(
    facts: InstallFacts,
    layout: Layout,
    role: Role,
    previous: Mapping[str, bytes],
    previous_digest: str,
    own: Mapping[Path, bytes] | None = None,
) -> list[Step]:
    """The steps that put the program and the units before the last upgrade back; `previous` are those units.

    `own` are those of our other files that it has replaced or removed, as they were.

    What was not replaced yet is left alone: a full disk may be why we go back.
    """
    steps: list[Step] = []
    if facts.installed_digest != previous_digest:
        steps.append(CopyFile(layout.previous / "kvedge", layout.program))
    steps += [
        WriteFile(layout.units / name, content)
        for name, content in previous.items()
        if facts.units.get(name) != content
    ]
    brought = [name for name in facts.units if name not in previous]
    # A timer would run on without its file.
    steps += [Systemctl(("disable", "--now", "--quiet", name)) for name in brought if _is_timer(name)]
    steps += [Remove(layout.units / name) for name in brought]
    steps += [
        WriteFile(path, content, 0o600 if path.parent == layout.roles else 0o644)
        for path, content in (own or {}).items()
        if facts.own.get(path) != content
    ]
    if steps:
        steps.append(Systemctl(("daemon-reload",)))
    verb = "start" if facts.running == "another" and facts.installed_digest == previous_digest else "restart"
    return [*steps, Systemctl((verb, main_unit(role)), START_SECONDS)]


def plan_uninstall(facts: InstallFacts, layout: Layout) -> tuple[list[Step], list[Step]]:
    """What goes before the guests are ended, and what after."""
    there = [name for name in ALL_UNITS if name in facts.units]
    services = [name for name in there if _can_be_stopped(name)]
    # The unit that shuts guests down with the host goes last: killall has ended them by then, and more gently.
    first: list[Step] = [Systemctl(("disable", "--now", "--quiet", name)) for name in services if "guests" not in name]
    last: list[Step] = [Systemctl(("disable", "--now", "--quiet", name)) for name in services if "guests" in name]
    last += [Remove(layout.units / name) for name in there]
    if there:
        last.append(Systemctl(("daemon-reload",)))
    last += [Remove(layout.node_settings), Remove(layout.roles), Remove(layout.data_dir / LINK)]
    last += [Remove(layout.modules), Remove(layout.previous), Remove(layout.pending), Remove(layout.program)]
    # At the very end: this program runs from there.
    return first, [*last, RemoveTrees(layout.data_dir / "data")]


def new_config(facts: Sequence[SettingFacts], given: Mapping[str, object]) -> bytes:
    """A settings file that says what was given, and shows the rest with their defaults."""
    lines = ["# Settings of kvedge; what begins with # is the default. Changes count after: systemctl restart kvedge"]
    for setting in facts:
        value = given.get(setting.key)
        lines += ["", f"# {setting.description}."]
        lines.append(f"#{setting.key}: {setting.default}" if value is None else f"{setting.key}: {value}")
    return ("\n".join(lines) + "\n").encode()


def _is_timer(name: str) -> bool:
    return name.endswith(".timer")


def _can_be_stopped(name: str) -> bool:
    return "@" not in name and not name.endswith(".slice")

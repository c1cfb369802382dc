"""The kubeconfigs that count for a call, merged as kubectl merges them: the first file that says a thing wins.

Called before a session is opened. Reads files and the environment.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from kvedge.client.errors import UsageError
from kvedge.kube.kubeconfigs.kubeconfig_reader import (
    CONTEXTS,
    SECTIONS,
    KubeconfigError,
    entries,
    file_keys,
    read_kubeconfig,
    values_of,
)

# k3s writes its own where only root can read it.
PLACES: Final = ("/etc/kvedge/kubeconfig", "~/.kube/config", "/etc/rancher/k3s/k3s.yaml")


class NoKubeconfig(UsageError):
    """None was named, and none is in the usual places."""


class FoundKubeconfig(NamedTuple):
    """What was read: the files, their merged document, and the name of the context that counts."""

    paths: tuple[Path, ...]
    document: dict[str, Any]
    context: str

    @property
    def namespace(self) -> str:
        """The context's namespace."""
        found = values_of(self.document, CONTEXTS, self.context) or {}
        return str(found.get("namespace") or "default")


def kubeconfig_paths(named: str | Path | None) -> tuple[Path, ...]:
    """`--kubeconfig`, then $KUBECONFIG (several with colons), then the usual places.

    Raises:
        NoKubeconfig: when there is none.
    """
    if named is not None:
        return (Path(named),)
    variable = [Path(item) for item in os.environ.get("KUBECONFIG", "").split(":") if item]
    if len(variable) > 1:
        # As with kubectl, those of several that are not there do not count.
        variable = [path for path in variable if os.path.exists(path)] or variable[:1]
    if variable:
        return tuple(variable)
    for place in PLACES:
        path = os.path.expanduser(place)
        if os.path.exists(path):
            return (Path(path),)
    raise NoKubeconfig(f"no kubeconfig: name one with --kubeconfig or $KUBECONFIG (looked for {', '.join(PLACES)})")


def load_kubeconfigs(paths: tuple[Path, ...], context: str | None) -> FoundKubeconfig:
    """The merged document, with `context` as its current one when that is named.

    Raises:
        UsageError: when a file cannot be read or is no kubeconfig, or when there is no such context.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        document = _read(path)
        for section in SECTIONS:
            known = {entry["name"] for entry in merged.setdefault(section, [])}
            merged[section] += [entry for entry in entries(document, section) if entry["name"] not in known]
        for key, value in document.items():
            merged.setdefault(key, value)
    names = [str(entry["name"]) for entry in merged["contexts"]]
    if context is not None:
        if context not in names:
            raise UsageError(f'there is no context "{context}" in {_list_paths(paths)}: {_list_names(names)}')
        merged["current-context"] = context
    current = merged.get("current-context")
    if not isinstance(current, str) or current not in names:
        what = f'current-context "{current}" is not one of its contexts' if current else "it has no current-context"
        raise UsageError(f"{_list_paths(paths)}: {what}; name one with --context: {_list_names(names)}")
    return FoundKubeconfig(paths, merged, current)


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_kubeconfig(path)
    except KubeconfigError as error:
        hint = "; run as root or name another" if isinstance(error.__cause__, PermissionError) else ""
        raise UsageError(f"{error}{hint}") from error
    for values, key in file_keys(document):
        # Relative file names count from the file that they stand in.
        if isinstance(values.get(key), str) and values[key]:
            values[key] = str((path.parent / values[key]).absolute())
    return document


def _list_paths(paths: tuple[Path, ...]) -> str:
    return ", ".join(map(str, paths))


def _list_names(names: list[str]) -> str:
    return f"there is {', '.join(names)}" if names else "it has none"

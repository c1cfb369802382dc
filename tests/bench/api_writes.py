"""Counts what is written to the API while something happens, by kind and by writer.

Watches every kind there is, as a user with all rights. Each version of an object that a watch tells of is one write;
the writer is the manager whose entry in `metadata.managedFields` changed with it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.kube.errors import KubeError
from kvedge.kube.rest_edge import Call, LineStream, Patience, RestEdge

# Events are courtesies and leases are heartbeats, in KubeVirt's own counts as well; so is what a Node says of itself.
_NOT_COUNTED = ("events", "leases", "nodes")
_WATCH_SECONDS = 600
# The measurement itself, a user's client.
CREATOR = "kvedge"


@dataclass(frozen=True, slots=True)
class Write:
    """One version of one object."""

    moment: float
    kind: str
    name: str
    writer: str
    change: str

    def __str__(self) -> str:
        return f"{self.writer}: {self.change} {self.kind}"


class WriteCounter:
    """Watches on all kinds of one API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._edge = RestEdge(from_kubeconfig(kubeconfig))
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self._streams: list[LineStream] = []
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """List every kind once and watch from there."""
        for path in self._watchable():
            listing = self._get(path)
            kind = path.rpartition("/")[2]
            for item in listing.get("items", []):
                self._known[kind, _name(item)] = item
            version = listing["metadata"]["resourceVersion"]
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
            stream = self._edge.stream(Call("GET", path, query), float(_WATCH_SECONDS))
            self._streams.append(stream)
            thread = threading.Thread(target=self._follow, args=(kind, stream), name=f"writes-{kind}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End all watches."""
        self._stopping = True
        for stream in self._streams:
            stream.close()
        for thread in self._threads:
            thread.join(2)
        self._edge.close()

    def settled(self, quiet_seconds: float, most_seconds: float) -> list[Write]:
        """All writes so far, once there was none for so long, or at the latest after `most_seconds`."""
        deadline = time.monotonic() + most_seconds
        while True:
            with self._lock:
                last = self._writes[-1].moment if self._writes else 0.0
                if time.monotonic() - last > quiet_seconds or time.monotonic() > deadline:
                    return list(self._writes)
            time.sleep(0.05)

    def seen(self, wanted: Callable[[Write], bool], most_seconds: float) -> Write:
        """The first such write; each kind is told of by a watch of its own, some of them later than others.

        Raises:
            TimeoutError: with what was written instead.
        """
        deadline = time.monotonic() + most_seconds
        while True:
            with self._lock:
                writes = list(self._writes)
            found = next((write for write in writes if wanted(write)), None)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"not written within {most_seconds:g} s; written was {[str(each) for each in writes]}"
                )
            time.sleep(0.05)

    def clear(self) -> None:
        """Forget what was counted."""
        with self._lock:
            self._writes.clear()

    def _watchable(self) -> list[str]:
        roots = ["/api/v1"]
        for group in self._get("/apis")["groups"]:
            roots.append(f"/apis/{group['preferredVersion']['groupVersion']}")
        found: dict[str, str] = {}
        for root in roots:
            try:
                resources = self._get(root)["resources"]
            except KubeError:
                # An aggregated API has nothing that can be watched, or is not there.
                continue
            for resource in resources:
                name = resource["name"]
                if "watch" in resource["verbs"] and "/" not in name and name not in _NOT_COUNTED:
                    found.setdefault(name, f"{root}/{name}")
        return list(found.values())

    def _get(self, path: str) -> dict[str, Any]:
        return dict(json.loads(self._edge.call(Call("GET", path), Patience())))

    def _follow(self, kind: str, stream: LineStream) -> None:
        try:
            for line in stream.lines():
                self._take(kind, json.loads(line))
        except KubeError:
            if not self._stopping:
                raise

    def _take(self, kind: str, event: Mapping[str, Any]) -> None:
        item = event["object"]
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        key = (kind, _name(item))
        with self._lock:
            old = self._known.pop(key, {})
            if event["type"] != "DELETED":
                self._known[key] = item
            write = Write(time.monotonic(), kind, key[1], _writer(old, item), _change(event["type"], old, item))
            self._writes.append(write)


def total(writes: list[Write]) -> Counter[str]:
    """How many of each."""
    return Counter(str(write) for write in writes)


def _name(item: Mapping[str, Any]) -> str:
    meta = item["metadata"]
    return f"{meta.get('namespace', '')}/{meta['name']}"


def _entries(item: Mapping[str, Any]) -> dict[tuple[str, str, str], Any]:
    found = item.get("metadata", {}).get("managedFields", [])
    return {(entry["manager"], entry["operation"], entry.get("subresource", "")): entry for entry in found}


def _writer(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    before, after = _entries(old), _entries(new)
    changed = [key[0] for key, entry in after.items() if before.get(key) != entry]
    if changed:
        return changed[-1]
    # A change of values alone leaves the fields as they were, and within a second the time as well. Whoever created
    # the object for the measurement does not change it.
    changed_at = max((entry.get("time", "") for entry in after.values()), default="")
    candidates = {key[0] for key, entry in after.items() if entry.get("time") == changed_at} - {CREATOR}
    return " or ".join(sorted(candidates)) or "unknown"


def _change(event: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if event != "MODIFIED":
        return {"ADDED": "create", "DELETED": "delete"}[event]
    if old.get("spec") != new.get("spec"):
        return "bind" if not old.get("spec", {}).get("nodeName") and new["spec"].get("nodeName") else "spec"
    phases = old.get("status", {}).get("phase"), new.get("status", {}).get("phase")
    if phases[0] != phases[1]:
        return f"to {phases[1]}"
    if old.get("status") != new.get("status"):
        return f"status ({', '.join(_changed(old.get('status', {}), new.get('status', {})))})"
    return "metadata"


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    if keys == ["conditions"]:
        before = {item["type"]: item.get("status") for item in old.get("conditions", [])}
        after = {item["type"]: item.get("status") for item in new["conditions"]}
        return sorted(kind for kind in before.keys() | after.keys() if before.get(kind) != after.get(kind)) or keys
    return keys

"""kill -9 while clients write, again and again on one store: what was answered must be there, whole, after each start.

Used by `tests/bench/api_bench` for a thousand rounds and by the contract tests for a few.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from tests.support.api_client import ApiClient
from tests.support.api_nursery import ApiNursery, ApiProcess

_PATH = "/api/v1/namespaces/default/configmaps"
_KEYS = 12
# The server is killed within so many seconds after each writer had its first answer.
_WITHIN_SECONDS = 0.06
_ENOUGH_SECONDS = 20.0


@dataclass(slots=True)
class Outcome:
    """What the rounds showed. `faults` is empty when the promise was kept."""

    rounds: int = 0
    answered: int = 0
    # Writes that were under way when the server was killed, and those of them that had reached the disk.
    open: int = 0
    open_kept: int = 0
    restart_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Writer(threading.Thread):
    """One client with names of its own: it knows what each of its objects must be."""

    def __init__(self, number: int, seed: int) -> None:
        super().__init__(name=f"writer-{number}")
        self._random = random.Random(seed)
        self._names = [f"w{number}-{key}" for key in range(_KEYS)]
        # The content of each object as it was last answered; a name that is missing does not exist.
        self.known: dict[str, str] = {}
        # The write without an answer: its object, and what it would be afterwards.
        self.open: tuple[str, str | None] | None = None
        self.answered = 0
        self.revision = 0
        self.problem = ""
        self.begun = threading.Event()
        self.client: ApiClient | None = None

    def run(self) -> None:
        """Write until the server is gone."""
        assert self.client is not None
        try:
            while not self.problem:
                self._write(self.client)
                self.begun.set()
        except (urllib3.exceptions.HTTPError, OSError):
            # Killed: anything may come of that, and the last write is open.
            pass
        finally:
            self.begun.set()

    def _write(self, client: ApiClient) -> None:
        name = self._random.choice(self._names)
        text = "".join(self._random.choices("abcdefgh", k=self._random.choice((10, 500, 20_000))))
        wanted: str | None = text
        if name in self.known and self._random.random() < 0.25:
            wanted = None
        self.open = (name, wanted)
        if wanted is None:
            answer = client.delete(f"{_PATH}/{name}")
        elif name in self.known:
            answer = client.put(f"{_PATH}/{name}", document(name, text))
        else:
            answer = client.post(_PATH, document(name, text))
        if answer.status not in (200, 201):
            self.problem = f"{name}: {answer.status} {answer.body[:200]!r}"
            return
        if wanted is None:
            self.known.pop(name)
        else:
            self.known[name] = wanted
            self.revision = max(self.revision, int(answer.json["metadata"]["resourceVersion"]))
        self.open = None
        self.answered += 1


def document(name: str, text: str) -> dict[str, Any]:
    """An object that shows whether it is whole."""
    data = {"text": text, "sum": hashlib.sha256(text.encode()).hexdigest()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def run_rounds(nursery: ApiNursery, directory: Path, rounds: int, writers: int = 4, seed: int = 1) -> Outcome:
    """So many lives of one store."""
    outcome, chance = Outcome(), random.Random(seed)
    states = [Writer(number, chance.randrange(1 << 30)) for number in range(writers)]
    for number in range(rounds):
        begin = time.monotonic()
        process = nursery.start(directory)
        outcome.restart_seconds.append(time.monotonic() - begin)
        try:
            check(process, states, outcome, number)
            states = [_next_life(state, index, chance) for index, state in enumerate(states)]
            _one_round(process, states, chance.random() * _WITHIN_SECONDS)
        finally:
            process.kill()
        for state in states:
            state.join(10)
            outcome.answered += state.answered
            if state.problem:
                outcome.faults.append(f"round {number}: {state.problem}")
        outcome.rounds += 1
        if outcome.faults:
            break
    process = nursery.start(directory)
    check(process, states, outcome, rounds)
    process.kill()
    return outcome


def check(process: ApiProcess, states: list[Writer], outcome: Outcome, number: int) -> None:
    """Hold what is there against what the writers know, and take it for what is known from now on."""
    client = process.client()
    answer = client.get(_PATH).json
    client.close()
    found: dict[str, str] = {}
    for item in answer["items"]:
        name, data = item["metadata"]["name"], item["data"]
        if data["sum"] != hashlib.sha256(data["text"].encode()).hexdigest():
            outcome.faults.append(f"round {number}: {name} is torn")
        found[name] = data["text"]
    if int(answer["metadata"]["resourceVersion"]) < max(state.revision for state in states):
        outcome.faults.append(f"round {number}: the revision went back")
    for state in states:
        if state.open is not None:
            name, wanted = state.open
            outcome.open += 1
            if found.get(name) == wanted and wanted != state.known.get(name):
                outcome.open_kept += 1
                state.known = {**state.known, name: wanted} if wanted is not None else _without(state.known, name)
        mine = {name: text for name, text in found.items() if name.startswith(f"{state.name.replace('writer-', 'w')}-")}
        if mine != state.known:
            lost = [name for name in {*mine, *state.known} if mine.get(name) != state.known.get(name)]
            outcome.faults.append(f"round {number}: {', '.join(sorted(lost))} differ from what was answered")


def _without(known: dict[str, str], name: str) -> dict[str, str]:
    return {key: text for key, text in known.items() if key != name}


def _next_life(state: Writer, number: int, chance: random.Random) -> Writer:
    """A thread runs once; what it knows is handed on."""
    writer = Writer(number, chance.randrange(1 << 30))
    writer.known, writer.revision = state.known, state.revision
    return writer


def _one_round(process: ApiProcess, states: list[Writer], seconds: float) -> None:
    clients = [process.client() for _ in states]
    for state, client in zip(states, clients, strict=True):
        state.client = client
        state.start()
    for state in states:
        assert state.begun.wait(_ENOUGH_SECONDS), "no answer"
    # How far the writers get is what differs from round to round.
    threading.Event().wait(seconds)
    process.kill()
    for state in states:
        state.join(10)
    for client in clients:
        client.close()

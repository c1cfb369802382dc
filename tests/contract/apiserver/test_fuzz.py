"""Requests that are nearly right, by the hundred: each is answered, none is a fault of the server's own."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.fuzz_corpus import CORPUS
from tests.support.api_client import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, TABLE
from tests.support.mutations import as_json, changed, torn
from tests.support.widgets import config_map, config_maps

pytestmark = pytest.mark.contract

ROUNDS = 250
_POINTERS = ("/metadata/labels", "/spec", "/metadata/name", "/metadata", "", "/metadata/managedFields", "/data/k")
_OPTIONS = {
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",
    "preconditions": {"uid": "x"},
}


def steps(document: Any, chance: random.Random) -> list[Any]:
    """A JSON patch."""
    values = [{}, [], 1, document, document["metadata"]]
    return [
        {
            "op": chance.choice(("add", "remove", "replace", "move", "copy", "test")),
            "path": chance.choice(_POINTERS),
            "from": chance.choice(_POINTERS),
            "value": changed(chance.choice(values), chance),
        }
        for _ in range(chance.randint(1, 3))
    ]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_sent_is_a_fault_of_the_servers_own(
    embedded_server: Server, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    admin, chance = embedded_server.admin, random.Random(seed)
    statuses: dict[int, int] = {}
    for _ in range(ROUNDS):
        path, document = chance.choice(CORPUS)
        one = f"{path}/{document['metadata'].get('name', 'x')}"
        below = one + chance.choice(("", "", "/status", "/scale"))
        admin.post(path, document)
        match chance.randrange(6):
            case 0:
                answer = admin.ask("POST", path, as_json(changed(document, chance)), dryRun=chance.choice(("", "All")))
            case 1:
                content_type = chance.choice((JSON, "application/yaml"))
                answer = admin.ask("POST", path, torn(as_json(document), chance), content_type)
            case 2:
                live = admin.get(one)
                base = live.json if live.status == 200 else document
                answer = admin.ask("PUT", below, as_json(changed(base, chance)))
            case 3:
                answer = admin.patch(below, steps(document, chance), JSON_PATCH)
            case 4:
                content_type = chance.choice((MERGE, STRATEGIC, APPLY))
                query = {"fieldManager": "m", "force": "true"} if content_type == APPLY else {}
                answer = admin.ask("PATCH", below, as_json(changed(document, chance)), content_type, **query)
            case _:
                answer = admin.ask("DELETE", one, as_json(changed(_OPTIONS, chance)))
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert answer.status < 500, answer.body
    faults = [record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
    assert faults == []
    # Enough of it gets in to be worth refusing the rest.
    assert statuses.get(200, 0) + statuses.get(201, 0) > ROUNDS // 20
    # Everything that got in can be listed, also as a table.
    for path, _ in CORPUS:
        for accept in (JSON, TABLE):
            assert admin.get(path, accept=accept).status in (200, 405)


@pytest.mark.parametrize("option", ["labelSelector", "fieldSelector", "continue", "limit", "resourceVersion", "dryRun"])
def test_no_query_is_a_fault_of_the_servers_own(embedded_server: Server, option: str) -> None:
    admin, chance = embedded_server.admin, random.Random(option)
    admin.post(config_maps("default"), config_map("there"))
    for _ in range(60):
        text = torn(b"a in (b,c),metadata.name!=c,!x=10", chance).decode("latin-1")
        assert admin.get(config_maps("default"), **{option: text}).status < 500

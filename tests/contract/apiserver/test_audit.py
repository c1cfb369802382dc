"""The embedded API writes down who did what, and neither bodies nor what its own roles do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.standalone.apiserver.audit_log import read_audit
from tests.contract.apiserver.conftest import Server, embedded, new_namespace
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audited")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    yield from embedded(folder)


def told(folder: Path, user: str) -> list[tuple[str, str, int]]:
    """What is written of a user: verb, object, status."""

    def where(event: dict[str, Any]) -> str:
        about = event["objectRef"]
        return "/".join(about[part] for part in ("resource", "name", "subresource") if part in about)

    found = [each for each in read_audit(folder / "state" / "audit") if each["user"]["username"] == user]
    return [(each["verb"], where(each), each["responseStatus"]["code"]) for each in found]


def test_a_users_changes_secrets_and_refusals_are_written_down(server: Server, folder: Path) -> None:
    namespace = new_namespace(server.admin)
    root = server.log_in("root", ["system:masters"])
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    body = {"metadata": {"generateName": "key-"}, "stringData": {"password": "hunter2"}}
    name = root.post(secrets, body, dryRun="All").json["metadata"]["name"]
    assert name.startswith("key-")
    made = root.post(secrets, body).json["metadata"]["name"]
    root.get(f"{secrets}/{made}")
    root.get(f"/api/v1/namespaces/{namespace}/configmaps")
    root.ask("DELETE", f"{secrets}/none")
    root.close()
    nobody = server.log_in("eve", [])
    assert nobody.get(f"/api/v1/namespaces/{namespace}/configmaps").status == 403
    nobody.close()
    wait_until(lambda: told(folder, "eve"), "the last one is written")
    assert told(folder, "root")[1:] == [
        ("create", f"secrets/{made}", 201),
        ("get", f"secrets/{made}", 200),
        ("delete", "secrets/none", 404),
    ]
    assert told(folder, "eve") == [("list", "configmaps", 403)]
    text = b"".join(path.read_bytes() for path in (folder / "state" / "audit").iterdir())
    assert b"hunter2" not in text
    assert b"dryRun" not in text


def test_what_kvedges_own_roles_and_strangers_do_is_not(server: Server, folder: Path) -> None:
    own = server.log_in("kvedge:controller", ["kvedge:controllers"])
    assert own.ask("DELETE", "/api/v1/namespaces/default/configmaps/none").status in (403, 404)
    own.close()
    stranger = server.log_in("", [])
    assert stranger.ask("DELETE", "/api/v1/namespaces/default/configmaps/none").status in (401, 403)
    stranger.close()
    new_namespace(server.admin)
    wait_until(lambda: told(folder, "admin"), "what came later is written")
    users = {each["user"]["username"] for each in read_audit(folder / "state" / "audit")}
    assert "kvedge:controller" not in users
    assert not {"", "system:anonymous"} & users

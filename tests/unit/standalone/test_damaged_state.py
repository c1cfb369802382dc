# Tests: kvedge/standalone/agent/container/container_state.py, kvedge/standalone/agent/container/log_times.py
# Tests: kvedge/standalone/apiserver/access/pki.py, kvedge/standalone/apiserver/access/kubeconfig.py
# Tests: kvedge/standalone/apiserver/access/server_certificate.py
# Tests: kvedge/standalone/apiserver/access/service_tokens.py, kvedge/standalone/box_node.py
# Tests: kvedge/standalone/box_lock.py
"""The small files of a box's state, each damaged in each way: read around, put aside and named, or refused."""

from __future__ import annotations

import json
import logging
import ssl
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.runtime.damaged_files import is_aside
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import Ended, ExitRecord, look_at_container, record_exit
from kvedge.standalone.agent.container.log_times import add_time, read_times, times_path
from kvedge.standalone.apiserver.access.kubeconfig import write_kubeconfig
from kvedge.standalone.apiserver.access.pki import Authority, DamagedAuthority, Subject
from kvedge.standalone.apiserver.access.server_certificate import BoxPki
from kvedge.standalone.apiserver.access.service_tokens import AccountId, ServiceTokens
from kvedge.standalone.box_lock import BoxLock
from kvedge.standalone.box_node import NodeName, node_name
from kvedge.standalone.box_state.state_check import check_state
from tests.support.damages import DAMAGES, Damage

each_damage = pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)


def aside(path: Path) -> list[Path]:
    """What was put aside of a file."""
    return [each for each in path.parent.iterdir() if is_aside(each.name) and each.name.startswith(path.name)]


@each_damage
@pytest.mark.parametrize("ending", ["key", "crt"])
@pytest.mark.parametrize("name", ["server-ca", "client-ca"])
def test_an_authority_that_others_trust_is_refused_with_the_remedy(
    tmp_path: Path, damage: Damage, ending: str, name: str
) -> None:
    BoxPki(tmp_path)
    path = tmp_path / f"{name}.{ending}"
    damage(path)
    with pytest.raises(DamagedAuthority) as refused:
        BoxPki(tmp_path)
    assert str(path) in str(refused.value)
    assert "kvedge state restore FILE" in str(refused.value)
    assert aside(path) == []


@pytest.mark.parametrize("name", ["server-ca", "client-ca"])
def test_the_key_of_another_authority_is_refused(tmp_path: Path, name: str) -> None:
    BoxPki(tmp_path)
    Authority(tmp_path / "other", name)
    (tmp_path / "other" / f"{name}.key").replace(tmp_path / f"{name}.key")
    with pytest.raises(DamagedAuthority, match=rf"{name}\.key is not the key of .*{name}\.crt"):
        BoxPki(tmp_path)


@each_damage
@pytest.mark.parametrize("ending", ["key", "crt"])
def test_the_front_proxys_authority_is_made_anew(tmp_path: Path, damage: Damage, ending: str) -> None:
    BoxPki(tmp_path).front_proxy_tls()
    path = tmp_path / f"front-proxy-ca.{ending}"
    damage(path)
    again = BoxPki(tmp_path)
    assert len(aside(path)) == 1
    again.front_proxy_tls()
    assert again.front_proxy.has_issued((tmp_path / "front-proxy.crt").read_bytes())


@each_damage
@pytest.mark.parametrize("ending", ["key", "crt"])
@pytest.mark.parametrize("name", ["server", "front-proxy"])
def test_a_certificate_is_made_anew(tmp_path: Path, damage: Damage, ending: str, name: str) -> None:
    pki = BoxPki(tmp_path)

    def make() -> None:
        pki.renew_server(["localhost"], datetime.now(UTC))
        assert isinstance(pki.front_proxy_tls(), ssl.SSLContext)

    make()
    path = tmp_path / f"{name}.{ending}"
    damage(path)
    make()
    assert len(aside(path)) == 1
    assert not aside(tmp_path / "client-ca.key")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")


@each_damage
def test_the_key_of_tokens_is_made_anew_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage
) -> None:
    def tokens() -> ServiceTokens:
        return ServiceTokens(tmp_path, lambda account: True, lambda: datetime(2026, 1, 1, tzinfo=UTC))

    token, _ = tokens().issue(AccountId("n", "a", "u"), ["x"], 3600)
    damage(tmp_path / "service-account.key")
    again = tokens()
    assert again.account_of(token, ["x"]) is None
    assert again.account_of(again.issue(AccountId("n", "a", "u"), ["x"], 3600)[0], ["x"]) is not None
    assert "the tokens of service accounts that were given out count no more" in caplog.text


@each_damage
def test_a_kubeconfig_is_written_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage) -> None:
    clients, path = Authority(tmp_path / "pki", "client-ca"), tmp_path / "kubeconfig"

    def write() -> None:
        write_kubeconfig(path, "https://x", b"ca", clients, Subject("ann"))

    write()
    damage(path)
    write()
    assert str(path) in caplog.text
    assert "current-context: kvedge" in path.read_text()


@each_damage
def test_the_version_mark_is_put_aside(tmp_path: Path, damage: Damage) -> None:
    def start() -> None:
        lock = BoxLock(tmp_path)
        lock.start()
        lock.stop()

    start()
    mark = tmp_path / "state" / "layout"
    good = mark.read_bytes()
    damage(mark)
    start()
    assert mark.read_bytes() == good
    (found,) = aside(mark)
    assert [each.problem for each in check_state(tmp_path) if each.what == "damaged file"] == [
        f"{found} was put aside: remove it once nothing in it is needed"
    ]


def test_a_directory_in_the_place_of_the_lock_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "state" / "lock").mkdir(parents=True)
    lock = BoxLock(tmp_path)
    lock.start()
    lock.stop()
    assert len(aside(tmp_path / "state" / "lock")) == 1


@each_damage
def test_the_nodes_name_is_put_aside_and_found_out_again(tmp_path: Path, damage: Damage) -> None:
    NodeName(tmp_path, "first-name", "").start()
    path = tmp_path / "node-name"
    damage(path)
    # There is no store here that would know; another name that is wanted counts only then.
    node = node_name(tmp_path, "", "host")
    assert node == "host"
    NodeName(tmp_path, node, "").start()
    assert path.read_text() == "host\n"
    assert len(aside(path)) == 1


@each_damage
@pytest.mark.parametrize("ending", ["json", "exit", "lock"])
def test_a_container_with_damaged_files_counts_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage, ending: str
) -> None:
    files = PodFiles(tmp_path).container("c")
    files.record.parent.mkdir()
    started = {"pid": 1, "start_time": 1, "holder": 1, "holder_start_time": 1, "started_at": 1.0, "failed": ""}
    files.record.write_text(json.dumps({"boot_id": "another", **started}))
    files.lock.touch()
    record_exit(files, ExitRecord(exit_code=3, reason="Error", finished_at=1.0))
    damage(files.record.with_suffix(f".{ending}"))
    with caplog.at_level(logging.WARNING):
        state = look_at_container(files, "this boot")
    assert isinstance(state, Ended)
    if ending == "exit":
        assert state.exit.reason == "ContainerStatusUnknown"
    else:
        assert state.exit.exit_code == 3


def test_a_damaged_record_of_a_container_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = PodFiles(tmp_path).container("c")
    files.record.parent.mkdir()
    files.record.write_text('{"boot_id": 3}')
    state = look_at_container(files, "this boot")
    assert isinstance(state, Ended)
    assert f"{files.record} is damaged" in caplog.text


@pytest.mark.parametrize(
    "damage",
    [*DAMAGES.values(), lambda path: path.write_bytes(struct.pack(">QQQQ", 2**64 - 1, 1, 5, 2**64 - 1))],
    ids=[*DAMAGES, "numbers out of range"],
)
def test_times_of_a_log_that_are_damaged_tell_nothing_wrong(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    log = tmp_path / "c.log"
    for second in range(10):
        add_time(log, 1_767_225_600.0 + second, second * 100)
    damage(times_path(log))
    times = read_times(log)
    for offset in (0, 50, 10**18):
        moment = times.at(offset)
        assert moment is None or 1970 <= moment.year <= 9999
    assert times.offset_since(datetime(2026, 1, 1, tzinfo=UTC)) >= 0

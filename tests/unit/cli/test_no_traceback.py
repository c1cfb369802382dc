# Tests: kvedge/cli/
"""Whatever goes wrong is a line with what to do and an exit code: no traceback ever reaches a user."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kvedge.cli.exits import Exit
from tests.support.scripted_api import Exchange, Script, refusing, scripted_api

_SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **more}


def kvedge_cli(*arguments: str | bytes, text: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "kvedge", *arguments],
        input=text,
        capture_output=True,
        check=False,
        env=environment(**more),
        timeout=_SECONDS,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert b"Exception ignored" not in done.stderr, done.stderr.decode()
    return done


PLAIN = "apiVersion: v1\nkind: Config\n"
BAD_KUBECONFIGS = {
    "empty": b"",
    "not text": b"\xff\xfe\x00",
    "not YAML": b"a: [",
    "a list": b"- 1\n",
    "a word": b"hello\n",
    "endless nesting": b"[" * 20_000,
    "no context": PLAIN.encode(),
    "a context that is not there": PLAIN.encode() + b"current-context: x\n",
    "contexts of a wrong kind": PLAIN.encode() + b"current-context: x\ncontexts: 3\nclusters: x\nusers: {}\n",
    "a context of a wrong kind": PLAIN.encode() + b"current-context: x\ncontexts: [{name: x, context: 3}]\n",
    "no cluster": PLAIN.encode() + b"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
    "a server that is a number": PLAIN.encode()
    + b"current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
    + b"clusters: [{name: x, cluster: {server: 7}}]\nusers: [{name: x, user: {}}]\n",
    "broken base64": PLAIN.encode()
    + b"current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
    + b"clusters: [{name: x, cluster: {server: 'https://h', certificate-authority-data: '%%%'}}]\n"
    + b"users: [{name: x, user: {}}]\n",
    "a certificate that is none": PLAIN.encode()
    + b"current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
    + b"clusters: [{name: x, cluster: {server: 'https://h', certificate-authority-data: aGVsbG8=}}]\n"
    + b"users: [{name: x, user: {}}]\n",
}


@pytest.mark.parametrize("kind", BAD_KUBECONFIGS)
def test_a_bad_kubeconfig_is_named_with_what_is_wrong_with_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(BAD_KUBECONFIGS[kind])
    done = kvedge_cli("list", KUBECONFIG=str(path))
    assert done.returncode == Exit.USAGE, done.stderr
    assert str(path) in done.stderr.decode()


def test_a_kubeconfig_that_only_root_may_read_says_so(tmp_path: Path) -> None:
    done = kvedge_cli("list", "--kubeconfig", str(tmp_path))
    assert done.returncode == Exit.USAGE
    assert f"{tmp_path}: cannot be read: Is a directory" in done.stderr.decode()


def answering(body: bytes, status: int = 200) -> Script:
    return lambda exchange: exchange.answer(status, body)


ODD_ANSWERS: dict[str, Script] = {
    "no JSON": answering(b"<html>hello</html>"),
    "nothing": answering(b""),
    "a number": answering(b"7"),
    "a list": answering(b"[1, 2]"),
    "another object": answering(b'{"kind": "Oops"}'),
    "items that are none": answering(b'{"kind": "List", "items": [1, null, "x"]}'),
    "broken UTF-8": answering(b'{"kind": "\xff\xfe"}'),
    "a page of a proxy": answering(b"<html>502 bad gateway</html>", 502),
    "a status that is none": answering(b'{"kind": "Status", "details": [], "code": "x"}', 400),
    "a status of odd parts": answering(b'{"kind": "Status", "details": {"causes": [1]}, "message": 3}', 422),
    "a redirect": answering(b"", 302),
    "a cut connection": Exchange.hang_up,
    "forbidden": refusing(403, "Forbidden", "you may not"),
    "too many": refusing(429, "TooManyRequests"),
}
VERBS = [
    "list",
    "get vm",
    "get vm web -o yaml",
    "describe vm web",
    "delete vm web",
    "scale vmirs/web --replicas 2",
    "start web",
    "start web --wait --timeout 1",
    "stop web --wait --timeout 1",
    "pause vm web",
    "reset web",
    "guestosinfo web",
    "trace web",
    "vnc screenshot web -f -",
    "vnc web --proxy-only",
    "spice web --proxy-only",
    "rdp web --proxy-only",
    "console web --timeout 0",
    "port-forward --stdio vm/web 80",
    "expose vm web --name x --port 1",
    "launch local/a:1 web",
    "version",
    "logs vmi/web",
]


# For each kubeconfig runs one verb after the other in a process of its own, and tells how each ended. All are copies of
# one that has imported what the verbs need.
_ALL_VERBS = """
import contextlib, importlib, io, json, os, sys
import kvedge.client.streams.stream_client, kvedge.kube.kube_client, kvedge.client.vm_rows, kvedge.client.vm_warnings
from kvedge.cli.group import run
from kvedge.cli.verbs import VERBS
configs, verbs = json.loads(sys.argv[1]), sys.argv[2:]
for verb in verbs:
    importlib.import_module(f"kvedge.cli.{VERBS[verb.split()[0]].module}")
children = []
for config in configs:
    if child := os.fork():
        children.append(child)
        continue
    os.environ["KUBECONFIG"] = config
    with open(f"{config}.ends", "w") as ends:
        for verb in verbs:
            told = io.StringIO()
            with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
                code = run(verb.split())
            ends.write(json.dumps([verb, int(code), told.getvalue()]) + "\\n")
    sys.exit()
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, int, str]]]:
    """How all verbs ended with each odd server; all servers are asked at once, as some make clients wait."""
    with contextlib.ExitStack() as stack:
        configs = {}
        for kind, script in ODD_ANSWERS.items():
            api = stack.enter_context(scripted_api(script))
            configs[kind] = api.write_kubeconfig(tmp_path_factory.mktemp("odd") / "kubeconfig")
        done = subprocess.run(
            [sys.executable, "-c", _ALL_VERBS, json.dumps([str(config) for config in configs.values()]), *VERBS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=120,
        )
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    return {
        kind: [tuple(json.loads(line)) for line in Path(f"{config}.ends").read_text().splitlines()]
        for kind, config in configs.items()
    }


@pytest.mark.parametrize("kind", ODD_ANSWERS)
def test_odd_answers_of_a_server_are_words(kind: str, ends: dict[str, list[tuple[str, int, str]]]) -> None:
    assert [verb for verb, _, _ in ends[kind]] == VERBS
    for verb, code, told in ends[kind]:
        # An odd answer may still be good enough for a verb that needs none.
        assert code in (Exit.DONE, Exit.FAILED, Exit.NOT_FOUND, Exit.TIMED_OUT), f"{verb}: {code} {told}"
        assert "Traceback" not in told, f"{verb}: {told}"
        assert code == Exit.DONE or "rror: " in told, f"{verb}: {told!r}"
    assert any(code != Exit.DONE for _, code, _ in ends[kind])


@pytest.mark.parametrize("verb", ["list", "start web", "console web --timeout 0", "version", "port-forward vm/web 80"])
def test_a_server_that_is_down_is_told_with_the_remedy(verb: str, tmp_path: Path) -> None:
    with scripted_api(answering(b"")) as api:
        config = api.write_kubeconfig(tmp_path / "kubeconfig")
        server = urlsplit(api.url).netloc
    done = kvedge_cli(*verb.split(), KUBECONFIG=str(config))
    assert done.returncode == Exit.FAILED
    told = done.stderr.decode()
    assert server in told
    assert "Connection refused: is `kvedge standalone` running?" in told
    # No names of Python's objects.
    assert "HTTPConnection" not in told
    assert "0x" not in told


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["apply", "-f", "-"], b"\xff\xfe", id="a manifest that is no text"),
        pytest.param(["apply", "-f", "-"], b"a: [", id="a manifest that is no YAML"),
        pytest.param(["apply", "-f", "-"], b"hello", id="a manifest that is a word"),
        pytest.param(["apply", "-f", "-"], b"kind: List\nitems: [1]\n", id="a list of numbers"),
        pytest.param(["apply", "-f", "-"], b"[" * 20_000, id="a manifest without an end"),
        pytest.param(["apply", "-f", "/proc/self/mem"], b"", id="a file that cannot be read"),
        pytest.param(["delete", "-f", "-"], b"kind: VirtualMachine\napiVersion: x\n", id="a manifest without a name"),
        pytest.param(["start", b"\xff\xfe"], b"", id="a name that is no text"),
        pytest.param(["start", "../../../api"], b"", id="a name that is a path"),
        pytest.param(["reset", "a?watch=true"], b"", id="a name that is a query"),
        pytest.param([b"\xff"], b"", id="a verb that is no text"),
        pytest.param(["launch", b"\xff", "x", "--dry-run"], b"", id="an image that is no text"),
    ],
)
def test_odd_input_is_refused_in_words(arguments: list[str | bytes], text: bytes, tmp_path: Path) -> None:
    kinds = {"groups": [], "resources": []}
    with scripted_api(lambda exchange: exchange.answer(200, kinds)) as api:
        config = api.write_kubeconfig(tmp_path / "kubeconfig")
        done = kvedge_cli(*arguments, text=text, KUBECONFIG=str(config))
    assert done.returncode in (Exit.FAILED, Exit.USAGE), done.stdout
    assert b"rror: " in done.stderr


def test_a_token_goes_with_streams_as_well(tmp_path: Path) -> None:
    with scripted_api(refusing(403, "Forbidden", "you may not")) as api:
        config = api.write_kubeconfig(tmp_path / "kubeconfig", token="secret-token")
        done = kvedge_cli("console", "web", KUBECONFIG=str(config))
        sent = {request.headers.get("Authorization") for request in api.requests}
    assert (done.returncode, done.stderr) == (Exit.FAILED, b"error: you may not\n")
    assert sent == {"Bearer secret-token"}


def long_answer(exchange: Exchange) -> None:
    metadata = {"namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    items = [{"metadata": {**metadata, "name": f"vm-{number}", "uid": str(number)}} for number in range(3000)]
    exchange.answer(200, {"metadata": {"resourceVersion": "1"}, "items": items})


@pytest.fixture
def busy_server(tmp_path: Path) -> Iterator[str]:
    with scripted_api(long_answer) as api:
        yield str(api.write_kubeconfig(tmp_path / "kubeconfig"))


@pytest.mark.parametrize("arguments", ["list", "list -o json", "--help", "create vm", "completion bash"])
def test_a_reader_that_has_seen_enough_is_no_failure(arguments: str, busy_server: str) -> None:
    command = f"{sys.executable} -m kvedge {arguments} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        env=environment(KUBECONFIG=busy_server),
        timeout=_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", ["list", "--help", "version --client", "create vm"])
def test_a_disk_that_is_full_is_told(arguments: str, busy_server: str) -> None:
    command = f"{sys.executable} -m kvedge {arguments} > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        env=environment(KUBECONFIG=busy_server),
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == Exit.FAILED
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_descriptors_are_no_reason_to_fail(closed: str, busy_server: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kvedge list {closed}"],
        capture_output=True,
        env=environment(KUBECONFIG=busy_server),
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Programs that are started from here hear Ctrl-C, also where this one was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "verb",
    [
        *("list", "start web --wait", "console web", "get vm -w"),
        *("vnc web --proxy-only", "spice web --proxy-only", "rdp web --proxy-only"),
    ],
)
def test_ctrl_c_ends_a_verb_without_a_word(verb: str, tmp_path: Path, ctrl_c: None) -> None:
    asked, over = threading.Event(), threading.Event()

    def silence(exchange: Exchange) -> None:
        asked.set()
        over.wait(_SECONDS)
        exchange.hang_up()

    with scripted_api(silence) as api:
        process = subprocess.Popen(
            [sys.executable, "-m", "kvedge", *verb.split()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(KUBECONFIG=str(api.write_kubeconfig(tmp_path / "kubeconfig"))),
        )
        assert asked.wait(_SECONDS)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=_SECONDS)
        over.set()
    assert (process.returncode, out, err) == (130, b"", b"")


def test_completion_says_nothing_when_there_is_nobody_to_ask(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_bytes(b"\xff")
    variables = {"COMP_WORDS": "kvedge start x", "COMP_CWORD": "2", "_KVEDGE_COMPLETE": "bash_complete"}
    done = kvedge_cli(KUBECONFIG=str(config), **variables)
    assert (done.stdout.strip(), done.stderr) == (b"", b"")


def test_whoever_asks_for_a_traceback_gets_one(tmp_path: Path) -> None:
    with scripted_api(answering(b"[]")) as api:
        config = str(api.write_kubeconfig(tmp_path / "kubeconfig"))
        assert b"KVEDGE_TRACEBACK=1 shows where" in kvedge_cli("version", KUBECONFIG=config).stderr
        done = subprocess.run(
            [sys.executable, "-m", "kvedge", "version"],
            capture_output=True,
            env=environment(KUBECONFIG=config, KVEDGE_TRACEBACK="1"),
            timeout=_SECONDS,
            check=False,
        )
    assert b"Traceback" in done.stderr


def test_whoever_asks_for_a_traceback_can_use_verbs_that_read_settings(tmp_path: Path) -> None:
    done = kvedge_cli("image", "list", "--data-dir", str(tmp_path), KVEDGE_TRACEBACK="1")
    assert (done.returncode, done.stderr) == (0, b"")

"""Asking a container once: its web page, its port, or a program in it.

Called by `pod_probes`, in a thread that has nothing else to do; each returns in the time that it is given, however
slowly a guest answers.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject, learn
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.durable_files import write_whole
from kvedge.standalone.agent.container.container_files import ContainerFiles
from kvedge.standalone.agent.container.container_spec import ContainerSpec, ExecSpec, ProcessSpec
from kvedge.standalone.agent.container.container_start import ContainerStarter, ContainerStartError
from kvedge.standalone.agent.container.container_state import Running
from kvedge.standalone.agent.container.probe_rules import Answer, probe_settings

# Of the line that begins an answer.
_LONGEST_LINE: Final = 8192
# Cuts a program's output, or a page, for an event.
_LONGEST_WORDS: Final = 512
_SAFE: Final = "/?&=%:@!$'()*+,;~"
_MISSING: Final = "its file is not there: the container was started by an older kvedge"

T = TypeVar("T")

# Threads ask several at once.
learn(ProcessSpec)


class Asked(Struct, frozen=True):
    """The container that a probe asks: it runs, at its Pod's address."""

    files: ContainerFiles
    state: Running
    address: str
    kind: str


def keep_process_spec(files: ContainerFiles, spec: ContainerSpec) -> None:
    """Write down what probes and users need to start programs in a container, also after the agent's next start.

    Raises:
        OSError: as the file system has it.
    """
    kept = {name: value for name, value in spec.items() if name in ProcessSpec.__annotations__}
    write_whole(files.process, json.dumps(kept).encode())


def read_process_spec(files: ContainerFiles) -> ProcessSpec:
    """What was written down.

    Raises:
        FileNotFoundError: nothing was, as by an older kvedge.
        OSError: as the file system has it.
        msgspec.DecodeError: the file is damaged.
    """
    return msgspec.json.decode(files.process.read_bytes(), type=ProcessSpec)


def ask(starter: ContainerStarter, probe: JsonObject, asked: Asked) -> Answer:
    """Ask once."""
    seconds = probe_settings(probe).timeout
    if "exec" in probe:
        return ask_program(starter, asked, probe["exec"].get("command") or [], seconds)
    if "httpGet" in probe:
        return ask_page(probe["httpGet"], asked.address, seconds)
    return ask_port(probe["tcpSocket"], asked.address, seconds)


def ask_program(starter: ContainerStarter, asked: Asked, command: Sequence[str], seconds: float) -> Answer:
    """Whether a program in the container exits with 0."""
    try:
        kept = read_process_spec(asked.files)
    except FileNotFoundError:
        return Answer(passed=False, words=_MISSING)
    except (OSError, msgspec.DecodeError) as error:
        return Answer(passed=False, words=f"{asked.files.process} is damaged, so nothing can be run there: {error}")
    spec = {
        **kept,
        "id": f"{asked.files.pod.name}/{asked.files.name}",
        "answer": str(asked.files.probe(asked.kind)),
        "pid": asked.state.pid,
        "start_time": asked.state.start_time,
        "argv": list(command),
        "seconds": seconds,
    }
    try:
        answer = starter.execute(cast("ExecSpec", spec))
    except (ContainerStartError, OSError) as error:
        return Answer(passed=False, words=str(error))
    words = _clean_text(answer["output"])
    if answer.get("late"):
        return Answer(passed=False, words=f"command timed out after {seconds:g} s{': ' if words else ''}{words}")
    code = answer["exit_code"]
    return Answer(passed=code == 0, words=words or f"the command's exit code is {code}")


def ask_port(wanted: dict[str, Any], address: str, seconds: float) -> Answer:
    """Whether somebody listens."""
    host = str(wanted.get("host") or address)
    try:
        with socket.create_connection((host, _port(wanted)), seconds):
            return Answer(passed=True)
    except (OSError, ValueError) as error:
        return Answer(passed=False, words=f"{host}:{wanted.get('port')}: {_explain(error, seconds)}")


def ask_page(wanted: dict[str, Any], address: str, seconds: float) -> Answer:
    """Whether a page's status is a good one. Only its first line is read: nothing else counts."""
    deadline = time.monotonic() + seconds
    host, scheme = str(wanted.get("host") or address), str(wanted.get("scheme") or "HTTP")
    path = urllib.parse.quote(str(wanted.get("path") or "/"), safe=_SAFE)
    try:
        port = _port(wanted)
        request = _request(wanted, host, port, path)
        with contextlib.closing(_connect(scheme, host, port, deadline)) as connection:
            _in_time(connection, deadline, lambda: connection.send(request))
            status = _status(_first_line(connection, deadline))
    except (OSError, ValueError) as error:
        url = f"{scheme.lower()}://{host}:{wanted.get('port')}/{path.removeprefix('/')}"
        return Answer(passed=False, words=f'Get "{_clean_text(url)}": {_explain(error, seconds)}')
    if 200 <= status < 400:
        return Answer(passed=True)
    return Answer(passed=False, words=f"HTTP probe failed with statuscode: {status}")


def _connect(scheme: str, host: str, port: int, deadline: float) -> socket.socket:
    plain = socket.create_connection((host, port), max(0.001, deadline - time.monotonic()))
    plain.setblocking(False)
    if scheme != "HTTPS":
        return plain
    try:
        # A probe asks whether anything answers, not for its identity, as with the kubelet.
        context = ssl._create_unverified_context()
        secure = context.wrap_socket(plain, do_handshake_on_connect=False)
    except BaseException:
        plain.close()
        raise
    try:
        _in_time(secure, deadline, secure.do_handshake)
    except BaseException:
        secure.close()
        raise
    return secure


def _in_time(connection: socket.socket, deadline: float, call: Callable[[], T]) -> T:
    """What a call brings on a connection that does not block, waited for until the deadline."""
    while True:
        events = select.POLLIN
        try:
            return call()
        except (ssl.SSLWantReadError, BlockingIOError):
            pass
        except ssl.SSLWantWriteError:
            events = select.POLLOUT
        poll = select.poll()
        poll.register(connection, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError


def _first_line(connection: socket.socket, deadline: float) -> bytes:
    received = b""
    while b"\n" not in received:
        if time.monotonic() >= deadline:
            raise TimeoutError
        part = _in_time(connection, deadline, lambda: connection.recv(_LONGEST_LINE))
        received += part
        if not part or len(received) > _LONGEST_LINE:
            raise ValueError("the answer is not HTTP")
    return received.partition(b"\n")[0]


def _status(line: bytes) -> int:
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(words[1])


def _request(wanted: dict[str, Any], host: str, port: int, path: str) -> bytes:
    headers = {
        "host": join_address(host, port),
        "user-agent": "kube-probe/kvedge",
        "accept": "*/*",
        "connection": "close",
    }
    headers |= {str(item["name"]).lower(): str(item["value"]) for item in wanted.get("httpHeaders") or []}
    lines = [f"GET /{path.removeprefix('/')} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any(not line.isprintable() for line in lines):
        raise ValueError("a header holds what no header may")
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


def _port(wanted: dict[str, Any]) -> int:
    try:
        return int(wanted["port"])
    except (KeyError, ValueError) as error:
        raise ValueError("no such port") from error


def _explain(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _clean_text(text: str) -> str:
    kept = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_WORDS])
    return kept.strip()

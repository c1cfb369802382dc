"""kvedge's own hook sidecar: serves KubeVirt's protocol, and runs the script of a ConfigMap for each question.

Started as the container of a sidecar without an image (`kvedge launcher --hook-shim --version VERSION`), as KubeVirt's
sidecar-shim is: the scripts are `onDefineDomain` and `preCloudInitIso` on the PATH, with the same arguments, and answer
on their standard output. It ends by SIGTERM, or when it is told that the guest has ended.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from kvedge.launcher.hooks.hook_points import (
    INFO_PATH,
    LARGEST_MESSAGE,
    ON_DEFINE_DOMAIN,
    PRE_CLOUD_INIT_ISO,
    SHUTDOWN,
    SINCE,
    callback_path,
)
from kvedge.resources.values.hook_names import HOOK_SOCKETS_DIRECTORY
from kvedge.rpc import hooks_pb2

log = logging.getLogger(__name__)

DEFINE_SCRIPT: Final = "onDefineDomain"
ISO_SCRIPT: Final = "preCloudInitIso"
# The launcher waits a little longer: a script that hangs is named.
SCRIPT_SECONDS: Final = 35.0
_STOP_SECONDS: Final = 1.0
# Linux takes no longer argument.
_LONGEST_ARGUMENT: Final = 128 << 10
_LONGEST_ERROR: Final = 400
_NAME: Final = "kvedge-hook-shim"


class _ScriptFailed(Exception):
    """A script did not answer; the text says why."""


class HookShim:
    """The server of one sidecar."""

    def __init__(self, version: str, directory: str = HOOK_SOCKETS_DIRECTORY) -> None:
        """`version` is the protocol that it speaks; the socket goes into `directory`."""
        self._version = version
        self._path = f"{directory}/shim.sock"
        self._done = threading.Event()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Serve.

        Raises:
            OSError: when the socket cannot be made.
        """
        limits = [("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(ThreadPoolExecutor(2, thread_name_prefix="grpc"), options=limits)
        for path, method in self._methods().items():
            service, name = path.strip("/").split("/")
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
        if os.path.lexists(self._path):
            os.unlink(self._path)
        try:
            self._server.add_insecure_port(f"unix:{self._path}")
        except RuntimeError as error:
            raise OSError(f"cannot listen at {self._path}") from error
        self._server.start()

    def wait(self) -> None:
        """Until it is told that the guest has ended, or to stop; then the answers under way are given."""
        self._done.wait()
        if self._server is not None:
            self._server.stop(_STOP_SECONDS).wait()

    def stop(self) -> None:
        """End the waiting; may be called by a signal."""
        self._done.set()

    def _methods(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        made = {INFO_PATH: _method(self._info, hooks_pb2.InfoParams)}
        callbacks = (
            (ON_DEFINE_DOMAIN, self._define, hooks_pb2.OnDefineDomainParams),
            (PRE_CLOUD_INIT_ISO, self._pre_iso, hooks_pb2.PreCloudInitIsoParams),
            (SHUTDOWN, self._shutdown, hooks_pb2.ShutdownParams),
        )
        for point, call, params in callbacks:
            if self._version >= SINCE[point]:
                made[callback_path(self._version, point)] = _method(call, params)
        return made

    def _info(self, request: Any, context: grpc.ServicerContext) -> hooks_pb2.InfoResult:
        points = [SHUTDOWN] if self._version >= SINCE[SHUTDOWN] else []
        scripts = ((DEFINE_SCRIPT, ON_DEFINE_DOMAIN), (ISO_SCRIPT, PRE_CLOUD_INIT_ISO))
        points += [point for script, point in scripts if shutil.which(script) and self._version >= SINCE[point]]
        return hooks_pb2.InfoResult(
            name=_NAME, versions=[self._version], hook_points=[hooks_pb2.HookPoint(name=name) for name in points]
        )

    def _define(self, request: Any, context: grpc.ServicerContext) -> hooks_pb2.OnDefineDomainResult:
        answer = _answer(context, DEFINE_SCRIPT, ["--vmi", request.vmi, "--domain", request.domain_xml])
        return hooks_pb2.OnDefineDomainResult(domain_xml=answer)

    def _pre_iso(self, request: Any, context: grpc.ServicerContext) -> hooks_pb2.PreCloudInitIsoResult:
        answer = _answer(context, ISO_SCRIPT, ["--vmi", request.vmi, "--cloud-init", request.cloud_init_data])
        return hooks_pb2.PreCloudInitIsoResult(
            cloud_init_data=answer, cloud_init_no_cloud_source=request.cloud_init_no_cloud_source
        )

    def _shutdown(self, request: Any, context: grpc.ServicerContext) -> hooks_pb2.ShutdownResult:
        log.info("the guest has ended, and so does its hook sidecar")
        self.stop()
        return hooks_pb2.ShutdownResult()


def _method(call: Callable[[Any, grpc.ServicerContext], Any], params: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(call, params.FromString, lambda reply: reply.SerializeToString())


def _answer(context: grpc.ServicerContext, script: str, arguments: list[str | bytes]) -> bytes:
    try:
        return run_script(script, arguments)
    except _ScriptFailed as error:
        log.error("a script failed", extra={"facts": {"script": script, "why": str(error)}})
        context.abort(grpc.StatusCode.INTERNAL, str(error))
        raise AssertionError("abort raises") from error


def run_script(script: str, arguments: list[str | bytes]) -> bytes:
    """What a script prints.

    Raises:
        _ScriptFailed: when it does not end with 0 in time.
    """
    if any(len(argument) >= _LONGEST_ARGUMENT for argument in arguments):
        raise _ScriptFailed(f"{script} cannot be told of more than {_LONGEST_ARGUMENT >> 10} KiB; use an image instead")
    try:
        done = subprocess.run([script, *arguments], capture_output=True, timeout=SCRIPT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _ScriptFailed(
            f"{script}: {error.strerror if isinstance(error, OSError) else 'it takes too long'}"
        ) from error
    if done.stderr:
        log.info("a script says", extra={"facts": {"script": script, "text": _text(done.stderr)}})
    if done.returncode:
        raise _ScriptFailed(f"{script} ended with {done.returncode}: {_text(done.stderr)}")
    return done.stdout


def _text(said: bytes) -> str:
    return said[-_LONGEST_ERROR:].decode(errors="replace").strip()


def run_shim(version: str) -> int:
    """Serve until the end; the exit code."""
    shim = HookShim(version)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: shim.stop())
    try:
        shim.start()
    except OSError as error:
        log.error("the hook shim does not start", extra={"facts": {"why": str(error)}})
        return 1
    shim.wait()
    return 0

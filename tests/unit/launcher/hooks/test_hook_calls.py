# Tests: kvedge/launcher/hooks/hook_points.py, kvedge/launcher/hooks/hook_shim.py, kvedge/launcher/hooks/hook_sidecar.py
# Tests: kvedge/launcher/hooks/vmi_hooks.py
"""A launcher and its hook sidecars over real sockets: kvedge's own shim with scripts, and sidecars that misbehave."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from kvedge.launcher.hooks import hook_calls, hook_shim
from kvedge.launcher.hooks.hook_calls import HookCalls
from kvedge.launcher.hooks.hook_points import INFO_PATH, callback_path
from kvedge.launcher.hooks.hook_shim import HookShim
from kvedge.launcher.hooks.vmi_hooks import VmiHooks
from kvedge.launcher.launcher_errors import BadRequest, HookFailed, Unanswered
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.rpc import hooks_pb2 as m

DOMAIN = "<domain type='kvm'><name>n_v</name><uuid>u</uuid><memory>1</memory></domain>"
FILES = {"meta-data": b'{"instance-id": "i"}', "user-data": b"#cloud-config"}
# Doubles the memory, as a script of a user does: by the arguments that KubeVirt's shim gives.
DOUBLE = """#!/bin/sh
test "$1" = --vmi && test "$3" = --domain || exit 3
echo "$4" | sed "s/<memory>1/<memory>2/"
"""


@pytest.fixture
def options() -> Iterator[LauncherOptions]:
    # Paths of sockets are short: pytest's own directories are too deep.
    with tempfile.TemporaryDirectory() as root:
        made = LauncherOptions(namespace="n", name="v", uid="u", root=root, hook_sidecars=1)
        for number in range(2):
            os.makedirs(f"{made.hooks_directory}/hook-sidecar-{number}")
        yield made


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    folder = tmp_path / "scripts"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return write


@pytest.fixture
def shim(options: LauncherOptions) -> Iterator[Callable[..., HookShim]]:
    made: list[HookShim] = []

    def start(version: str = "v1alpha3", number: int = 0) -> HookShim:
        made.append(HookShim(version, f"{options.hooks_directory}/hook-sidecar-{number}"))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()
        each.wait()


@pytest.fixture
def sidecar(options: LauncherOptions) -> Iterator[Callable[..., None]]:
    """A sidecar of somebody: its info, and what it answers about a domain."""
    servers: list[grpc.Server] = []

    def start(info: m.InfoResult, domain: Callable[[bytes], bytes], number: int = 0, version: str = "v1alpha1") -> None:
        server = grpc.server(ThreadPoolExecutor(2))
        calls = {
            INFO_PATH: (m.InfoParams, lambda request, context: info),
            callback_path(version, "OnDefineDomain"): (
                m.OnDefineDomainParams,
                lambda request, context: m.OnDefineDomainResult(domain_xml=domain(request.domain_xml)),
            ),
        }
        for path, (params, call) in calls.items():
            service, name = path.strip("/").split("/")
            method = grpc.unary_unary_rpc_method_handler(
                call, params.FromString, lambda reply: reply.SerializeToString()
            )
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
        server.add_insecure_port(f"unix:{options.hooks_directory}/hook-sidecar-{number}/some.sock")
        server.start()
        servers.append(server)

    yield start
    for server in servers:
        server.stop(None)


def info(name: str = "hook", priority: int = 0, *versions: str) -> m.InfoResult:
    point = m.HookPoint(name="OnDefineDomain", priority=priority)
    return m.InfoResult(name=name, versions=versions or ("v1alpha1",), hook_points=[point])


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1alpha3"])
def test_a_script_changes_the_domain_by_each_protocol(
    options: LauncherOptions, scripts: Callable[[str, str], None], shim: Callable[..., HookShim], version: str
) -> None:
    scripts("onDefineDomain", DOUBLE)
    shim(version)
    xml, changed = HookCalls(options, 20).on_define_domain(DOMAIN, b'{"spec": {}}')
    assert "<memory>2</memory>" in xml
    assert changed == ["hook-sidecar-0"]


def test_a_script_changes_cloud_inits_data(
    options: LauncherOptions, scripts: Callable[[str, str], None], shim: Callable[..., HookShim]
) -> None:
    scripts(
        "preCloudInitIso", '#!/bin/sh\ntest "$3" = --cloud-init || exit 3\necho "$4" | sed s/#cloud-config/#hooked/\n'
    )
    shim("v1alpha2")
    made = HookCalls(options, 20).pre_cloud_init_iso(FILES, "init", b"{}")
    assert made["user-data"] == b"#hooked"
    assert json.loads(made["meta-data"]) == {"instance-id": "i"}


def test_a_shim_without_the_script_is_not_asked(options: LauncherOptions, shim: Callable[..., HookShim]) -> None:
    shim()
    assert HookCalls(options, 20).on_define_domain(DOMAIN, b"{}") == (DOMAIN, [])
    assert HookCalls(options, 20).pre_cloud_init_iso(FILES, "init", b"{}") == FILES


def test_a_script_that_fails_is_quoted_with_its_sidecar(
    options: LauncherOptions, scripts: Callable[[str, str], None], shim: Callable[..., HookShim]
) -> None:
    scripts("onDefineDomain", "#!/bin/sh\necho no such board >&2\nexit 4\n")
    shim()
    with pytest.raises(HookFailed, match=r"hook sidecar hook-sidecar-0: .*ended with 4: no such board"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_a_script_that_takes_too_long_is_ended(
    options: LauncherOptions,
    scripts: Callable[[str, str], None],
    shim: Callable[..., HookShim],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook_shim, "SCRIPT_SECONDS", 0.2)
    scripts("onDefineDomain", "#!/bin/sh\nexec sleep 600\n")
    shim()
    with pytest.raises(HookFailed, match="takes too long"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_data_that_is_no_text_is_the_vmis_fault(
    options: LauncherOptions, scripts: Callable[[str, str], None], shim: Callable[..., HookShim]
) -> None:
    scripts("preCloudInitIso", "#!/bin/sh\n")
    shim()
    with pytest.raises(BadRequest, match=r"spec\.volumes\[init\].*no UTF-8"):
        HookCalls(options, 20).pre_cloud_init_iso({**FILES, "user-data": b"\xff"}, "init", b"{}")


def test_the_highest_priority_is_asked_first(options: LauncherOptions, sidecar: Callable[..., None]) -> None:
    options.hook_sidecars = 2
    sidecar(info("late", 1), lambda xml: xml.replace(b"<memory>2", b"<memory>3"), number=0)
    sidecar(info("early", 9), lambda xml: xml.replace(b"<memory>1", b"<memory>2"), number=1)
    xml, changed = HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")
    assert "<memory>3" in xml
    assert changed == ["hook-sidecar-1", "hook-sidecar-0"]


def test_an_answer_that_is_another_domain_is_refused_with_the_sidecars_name(
    options: LauncherOptions, sidecar: Callable[..., None]
) -> None:
    sidecar(info(), lambda xml: xml.replace(b"n_v", b"n_other"))
    with pytest.raises(HookFailed, match=r"hook-sidecar-0: OnDefineDomain answered a domain of another <name>"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_an_endless_answer_is_not_taken(options: LauncherOptions, sidecar: Callable[..., None]) -> None:
    sidecar(info(), lambda xml: b"x" * (9 << 20))
    with pytest.raises(HookFailed, match="hook-sidecar-0"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_a_sidecar_of_another_time_is_refused(options: LauncherOptions, sidecar: Callable[..., None]) -> None:
    sidecar(info("hook", 0, "v2"), bytes)
    with pytest.raises(HookFailed, match="speaks none of the protocols v1alpha1, v1alpha2, v1alpha3"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_a_sidecar_that_is_not_there_is_waited_for_within_the_time(options: LauncherOptions) -> None:
    with pytest.raises(Unanswered, match="hook-sidecar-0 serves no socket"):
        HookCalls(options, 0.3).on_define_domain(DOMAIN, b"{}")


def test_a_socket_that_nobody_serves_and_a_link_to_another_count_for_nothing(
    options: LauncherOptions, shim: Callable[..., HookShim], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_calls, "_APPEAR_SECONDS", 0.3)
    directory = f"{options.hooks_directory}/hook-sidecar-0"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{directory}/a.sock")
    shim(number=1)
    os.symlink(f"{options.hooks_directory}/hook-sidecar-1/shim.sock", f"{directory}/b.sock")
    with pytest.raises(Unanswered, match="serves no socket"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")


def test_a_directory_that_a_sidecar_has_filled_is_not_read_to_its_end(
    options: LauncherOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_calls, "_APPEAR_SECONDS", 0.0)
    looked = []
    monkeypatch.setattr(hook_calls.stat, "S_ISSOCK", lambda mode: looked.append(mode))
    for number in range(300):
        Path(options.hooks_directory, "hook-sidecar-0", f"f{number}").touch()
    with pytest.raises(Unanswered, match="serves no socket"):
        HookCalls(options, 20).on_define_domain(DOMAIN, b"{}")
    assert len(looked) == 256


def test_the_end_of_the_guest_ends_the_shim(options: LauncherOptions, shim: Callable[..., HookShim]) -> None:
    served = shim("v1alpha3")
    told: list[str] = []
    HookCalls(options, 5).shutdown(told.append)
    served.wait()
    assert told == []


def test_a_sidecar_that_is_gone_does_not_hold_the_end(options: LauncherOptions) -> None:
    HookCalls(options, 5).shutdown(lambda why: pytest.fail(why))


def test_a_vmi_without_sidecars_keeps_its_documents() -> None:
    assert VmiHooks().shape_domain(DOMAIN) == (DOMAIN, ())
    assert VmiHooks().shape_iso(FILES, "init") == FILES

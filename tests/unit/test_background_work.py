# Tests: kvedge/
"""All background work of the package: every thread and task is begun by the helpers, and outlives any exception.

The tables name each place once. A new thread, task or event loop fails here until it stands in one of them.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

import kvedge
from kvedge.api.registration.presence_loop import Presence
from kvedge.appliance.cluster.kept_image import KeptImage
from kvedge.appliance.install.unpacked_trees import OldVersions
from kvedge.controller.alarms.words.teller_desk import WordPlaces
from kvedge.controller.alarms.words.tellers import Channel, Teller
from kvedge.handler.fencing.fence_service import FenceConfig, FenceService
from kvedge.handler.launchers.relay_service import RelayConfig, RelayService
from kvedge.handler.migration.outgoing_service import OutgoingService
from kvedge.handler.node.device_plugins import DevicePlugins
from kvedge.handler.node.node_loop import NodeLoop as HandlersNodeLoop
from kvedge.handler.node.node_platform import NodePlatform
from kvedge.handler.usage.usage_keeper import UsageKeeper
from kvedge.kube.events import EventRecorder
from kvedge.kube.informer import Informer
from kvedge.kube.leases import LeaderElection
from kvedge.kube.reconcile_loop import ReconcileLoop
from kvedge.kube.work_queue import Key
from kvedge.launcher.agent.agent_state import Task
from kvedge.launcher.agent.credential_keeper import CredentialKeeper
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.hotplug.disk_keeper import DiskKeeper
from kvedge.launcher.metrics.metrics_keeper import MetricsKeeper
from kvedge.launcher.run.domain_watch import DomainWatch
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import METRICS_SOCKET
from kvedge.resources.types.core import Node, Pod
from kvedge.rpc.launcher_pb2 import SyncRequest
from kvedge.runtime import background
from kvedge.runtime.background import BackgroundThread, on_trouble
from kvedge.runtime.clock import SystemClock
from kvedge.runtime.rounds import Rounds
from kvedge.standalone.agent.container.container_watch import ContainerWatch
from kvedge.standalone.agent.node.node_loop import NodeLoop as AgentsNodeLoop
from kvedge.standalone.agent.pod.address_sweep import AddressSweep
from kvedge.standalone.agent.pod.pod_probes import PodProbes
from kvedge.standalone.apiserver import api_server
from kvedge.standalone.apiserver.audit_log import AuditLog
from kvedge.standalone.apiserver.loops.copy_loop import CopyLoop
from kvedge.standalone.apiserver.loops.csr_loop import CsrLoop
from kvedge.standalone.apiserver.loops.expiry_loop import ExpiryLoop
from kvedge.standalone.apiserver.loops.work_loop import WorkLoop
from kvedge.standalone.drop_ins.drop_in_loop import DropInLoop
from kvedge.standalone.names.host_names import HostNames
from kvedge.standalone.volumes.space_watch import SpaceWatch
from kvedge.web.on_box import box_console

PACKAGE = Path(kvedge.__file__).parent

# What begins work without a helper, by file, and why that is right there.
BARE = {
    "runtime/background.py": "the helper",
    "runtime/background_tasks.py": "the helper",
    "runtime/last_exit.py": "one wait; it ends the process",
    "runtime/serving/stream_pump.py": "one viewer's stream, whose end is the stream's",
    "runtime/serving/loop_thread.py": "a server's own thread: failure() tells its cause, the role ends",
    "web/spice_door.py": "one viewer's door: the page that asked is answered, its end is logged, and the app ends all",
    "web/console_app.py": "one page's websocket: the call that serves it waits for it",
    "web/stream_bridge.py": "one page's stream, whose end is the stream's",
    "network/netns.py": "one call in another namespace; the caller waits and gets its exception",
    "handler/own_thread.py": "one call in another namespace; the caller waits and gets its exception",
    "handler/launchers/launcher_connections.py": "the event loop's own thread: failure() tells that it ended",
    "network/dhcp/dhcp_server.py": "each packet survives by itself",
    "network/dhcp/ipv6_server.py": "each packet survives by itself",
    "storage/decompress.py": "feeds one decompressor, whose reader sees the end",
    "storage/imports/uploads/upload_attempt.py": "takes one upload; whoever waits for its outcome gets its exception",
    "storage/imports/uploads/upload_server.py": "one call each; the server itself ends with its process",
    "storage/exports/export_server.py": "one call each; the server itself ends with its process",
    "storage/images/image_worker.py": "a process of its own: waits for its asker's end, and ends the process",
    "api/metrics/shared_answer.py": "one answer, which those who wait for it get, its exception too",
    "standalone/apiserver/routes/usage_routes.py": "one measurement for all who ask at the same time, awaited by them",
    "handler/launchers/node_stats.py": "one answer, which those who wait for it get, its exception too",
    "api/subresources/health_check.py": "one answer, which those who wait for it get, its exception too",
    "api/subresources/stream_calls.py": "watches one stream, and ends it whatever happens",
    "storage/backups/patience.py": "one look at a file system, which never ends where its server hangs",
    "standalone/apiserver/aggregation/upgrade_tunnel.py": "the two directions of one tunnel, which ends with either",
    "standalone/apiserver/routes/remote_streams.py": "the directions of one command's streams, which end together",
    "standalone/apiserver/routes/forwarding/forward_tunnel.py": "one client's connections, which end with its tunnel",
    "standalone/apiserver/store/object_store.py": "after an exception nobody knows what is written: it ends the role",
}
# Event loops, by file: with a heartbeat, or why they need none.
EVENT_LOOPS = {
    "runtime/serving/loop_thread.py": "LoopPulse",
    "handler/launchers/launcher_connections.py": "LoopPulse",
    "network/nft/nft_edge.py": "one exchange with the kernel, by the thread that waits for it",
}
_BEGIN = {"Thread", "Timer", "create_task", "ensure_future", "TaskGroup", "start_new_thread"}
_LOOPS = {("asyncio", "run"), ("asyncio", "Runner"), ("asyncio", "new_event_loop")}
_HELPERS = {"BackgroundThread", "Rounds", "background_task"}


@functools.cache
def calls() -> list[tuple[str, str, str]]:
    """File, what a call is made on, and its name; sessions of the command line end with their command."""
    return list(_calls())


def _calls() -> Iterator[tuple[str, str, str]]:
    asked = _BEGIN | {name for _, name in _LOOPS} | _HELPERS | {"LoopPulse"}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        if file.startswith(("cli/", "client/streams/", "rpc/")):
            continue
        text = path.read_text()
        # To parse all modules takes seconds.
        if not any(name in text for name in asked):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
                yield file, on, node.func.attr
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield file, "", node.func.id


def test_threads_and_tasks_are_begun_by_the_helpers_or_are_known() -> None:
    assert {file for file, _, name in calls() if name in _BEGIN} == set(BARE)


def test_event_loops_have_a_heartbeat_or_are_known() -> None:
    assert {file for file, on, name in calls() if (on, name) in _LOOPS} == set(EVENT_LOOPS)
    beating = {file for file, _, name in calls() if name == "LoopPulse"}
    assert beating == {file for file, why in EVENT_LOOPS.items() if why == "LoopPulse"}


class Thrown:
    """Stands for a step of the work: raises twice, and then nothing."""

    def __init__(self, error: type[Exception]) -> None:
        self.calls = 0
        self.again = threading.Event()
        self._error = error

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.calls += 1
        if self.calls <= 2:
            raise self._error("on purpose")
        self.again.set()
        return None

    async def later(self, *_: Any) -> None:
        self()


Make = Callable[[Thrown, Path, pytest.MonkeyPatch], Any]


def _api_rounds(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    from kvedge.api import api_service

    patch.setattr(api_service, "_ROUND_SECONDS", 0.01)
    role = api_service.ApiRole(path)
    patch.setattr(role, "refresh", thrown)
    parts = role._make_parts(MagicMock(), MagicMock(), MagicMock())
    return next(part for part in parts if part.name == "rounds")


def _keeper(keeper: str, *wanted: Any) -> Make:
    """One of the agent's keepers, which has rounds."""

    def make(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
        module, name = keeper.rsplit(".", 1)
        patch.setattr(f"{module}._PERIOD", 0.01)
        patch.setattr(f"{keeper}.look", lambda *_: thrown())
        return getattr(importlib.import_module(module), name)(*wanted).rounds

    return make


def _audit_log(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    made = AuditLog(path)
    patch.setattr(made, "_write", thrown)
    request = MagicMock()
    for _ in range(8 * 256):
        made.note(request, "ResponseComplete", 200)
    patch.setattr("kvedge.standalone.apiserver.audit_log.audit_event", lambda *_: {})
    return made


def _presence(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.api.registration.presence_loop.BEAT_SECONDS", 0.01)
    patch.setattr("kvedge.api.registration.presence_loop.endpoint_slice", MagicMock())
    presence = Presence(MagicMock(), MagicMock())
    presence._appears = True
    patch.setattr(presence, "_pass_once", thrown)
    return presence


def _device_plugins(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    plugins = DevicePlugins(path, [])
    patch.setattr(plugins, "_look", thrown)
    return plugins


def _handlers_node(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    loop = HandlersNodeLoop(MagicMock(), "node", MagicMock(), str, str, MagicMock(), MagicMock(), tuple)
    patch.setattr(loop, "_write", thrown)
    return loop


def _platform(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    own = MagicMock(is_set=True)
    platform = NodePlatform(own, path, MagicMock(side_effect=lambda: MagicMock(obsolete_cpu_models=object())))
    platform._now = own.accelerator, MagicMock()
    platform.on_change(thrown)
    return platform


def _relay(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.handler.launchers.relay_service._PATIENCE_SECONDS", 0.01)
    relay = RelayService(MagicMock(), RelayConfig("node", "127.0.0.1:0"), MagicMock())
    patch.setattr(relay, "refresh", thrown)
    return relay


def _leaving(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.handler.migration.outgoing_service._ROUND_SECONDS", 0.01)
    service = OutgoingService(MagicMock(), "node", path)
    patch.setattr(service, "refresh", thrown)
    # As the first guest that is to leave does.
    patch.setattr(service, "start", service._begin_service)
    return service


def _events(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    recorder = EventRecorder(MagicMock(), "someone")
    patch.setattr(recorder, "_send", thrown)
    for number in range(3):
        recorder.record(Node(metadata=ObjectMeta(name="node")), "Normal", "Test", str(number))
    return recorder


def _informer(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    informer = Informer(MagicMock(), Pod)
    patch.setattr(informer, "_relist", thrown)
    return informer


def _lease(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    election = LeaderElection(MagicMock(), "kubevirt", "a", "me", thrown, thrown)
    patch.setattr(election, "step", thrown)
    return election


def _reconcile(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    loop = ReconcileLoop("loop", thrown)
    patch.setattr(loop, "_pass_once", thrown)
    for name in "abc":
        loop.add(Key("default", name))
    return loop


def _data_volumes(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    from kvedge.controller.datavolumes import data_volume_work

    patch.setattr(data_volume_work, "_FIRST_LOOK_SECONDS", 0.01)
    made = data_volume_work.DataVolumeWork(
        MagicMock(), (MagicMock(), MagicMock(), MagicMock()), MagicMock(), MagicMock(), MagicMock()
    )
    patch.setattr(made, "_is_ours", thrown)
    made.start()
    return made


def _late(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    from kvedge.controller.late_work import LateWork

    informer = MagicMock(wait_synced=thrown, failure=lambda: None)
    loop = MagicMock()
    loop.loop.failure.return_value = None
    return LateWork("late", (informer,), (), loop)


def _controller(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    from kvedge.controller.controller_work import ControllerWork

    work = ControllerWork(MagicMock(), MagicMock(), MagicMock(), MagicMock(), WordPlaces())
    patch.setattr(work, "wait_synced", thrown)
    patch.setattr(work._configuration, "wait", lambda seconds: None)
    work._starter.start()
    return work._starter


def _watch(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    watch = ContainerWatch(thrown)
    watch._untold.append(Key("default", "a"))
    return watch


def _probes(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    probes = PodProbes(MagicMock(), MagicMock(), MagicMock())
    probes._entries = MagicMock(values=lambda: thrown() or ())
    return probes


def _agents_node(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.standalone.agent.node.node_loop._RENEW_SECONDS", 0.01)
    loop = AgentsNodeLoop(MagicMock(), MagicMock(), "", MagicMock(), list, MagicMock())
    patch.setattr(loop, "_ensure_node", lambda: None)
    patch.setattr(loop, "_write_status", lambda: None)
    patch.setattr(loop, "_write_lease", thrown)
    return loop


def _sweep(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    return AddressSweep(MagicMock(release_next=thrown), SystemClock())


def _kept_image(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    return KeptImage(thrown, 0.01)


def _fencer(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    service = FenceService(FenceConfig(path, "node", path / "fence.json"))
    service._keeper = MagicMock(look=thrown, terms=MagicMock(check=0.01))
    service._looking.start()
    return service._looking


def _old_versions(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.appliance.install.unpacked_trees.is_frozen", lambda: True)
    versions = OldVersions(path, None)
    patch.setattr(versions, "_remove", thrown)
    return versions


def _drop_ins(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.standalone.drop_ins.drop_in_loop.POLL_SECONDS", 0.01)
    # Also when telling fails.
    return DropInLoop("drop ins", MagicMock(look=thrown), MagicMock(tell_fault=MagicMock(side_effect=ValueError("no"))))


def _domain_watch(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.launcher.run.domain_watch.SOON_SECONDS", 0.01)
    patch.setattr("kvedge.launcher.run.domain_watch.LOOK_AGAIN_SECONDS", 0.01)
    watch = DomainWatch(thrown)
    watch._untidy = False
    return watch.start(lambda: None)


def _space_watch(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.standalone.volumes.space_watch._PERIOD", 0.01)
    patch.setattr("kvedge.standalone.volumes.space_watch.SpaceWatch.look", lambda *_: thrown())
    return SpaceWatch(MagicMock(), MagicMock(), MagicMock(), "node", SystemClock(), MagicMock()).rounds()


def _host_names(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.standalone.names.host_names._PERIOD", 0.01)
    patch.setattr("kvedge.standalone.names.host_names.HostNames.look", lambda *_: thrown())
    return HostNames("kvedge0", "10.99.0.1").rounds


def _disk_keeper(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    keeper = DiskKeeper(MagicMock(), "", lambda: None)
    patch.setattr(keeper, "look", lambda: thrown() and 0.01)
    keeper.start()
    return keeper._thread


def _credential_keeper(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.launcher.agent.credential_keeper.LOOK_SECONDS", 0.01)
    keeper = CredentialKeeper(MagicMock(), "", lambda: None)
    patch.setattr(keeper, "look", thrown)
    way = {"source": {"secret": {"secretName": "s"}}, "propagationMethod": {"qemuGuestAgent": {}}}
    keeper.follow(
        SyncRequest(vmi_json=json.dumps({"spec": {"accessCredentials": [{"userPassword": way}]}}).encode()), None
    )
    return keeper._thread


def _metrics_keeper(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    keeper = MetricsKeeper(MagicMock(), str(path), str(path))
    patch.setattr(keeper, "write", thrown)
    (path / METRICS_SOCKET).touch()
    keeper.begin()
    return keeper._thread


def _usage_keeper(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr("kvedge.handler.usage.usage_keeper.LOOK_SECONDS", 0.01)
    return UsageKeeper(lambda: thrown() or (0.0, ()), MagicMock(), MagicMock(), SystemClock())


def _guest_agent(thrown: Thrown, path: Path, patch: pytest.MonkeyPatch) -> Any:
    agent = GuestAgent(MagicMock(), MagicMock(), MagicMock())
    patch.setattr(agent, "_await_next", lambda: Task(thrown(), 0))
    # Nothing more to do, for as long as the test lives.
    patch.setattr(agent.freezer, "thaw_in_time", threading.Event().wait)
    agent.follow(connected=True, running=True)
    return agent._thread


class _ConsoleUpkeep:
    """The console's certificate and sessions, looked after four times a minute."""

    def __init__(self, thrown: Thrown, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(box_console, "_UPKEEP_SECONDS", 0.01)
        self._console = box_console.BoxConsole("127.0.0.1:0", Path(), MagicMock())
        patch.setattr(self._console, "_read_certificate", thrown)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._console._begin_upkeep(MagicMock(), MagicMock())

    def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()


class _Renewal:
    """The server's certificates, looked after once a day."""

    def __init__(self, thrown: Thrown, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(api_server, "_DAY_SECONDS", 0.01)
        patch.setattr(api_server, "_HOUR_SECONDS", 0.01)
        self._api = api_server.EmbeddedApi.__new__(api_server.EmbeddedApi)
        patch.setattr(self._api, "_renew", thrown, raising=False)
        self._api._pki, self._api._kubeconfigs = MagicMock(), {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._api._start_renewal(MagicMock(), MagicMock())

    def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()


THREADS: dict[str, Make] = {
    "api/api_service.py": _api_rounds,
    "api/registration/presence_loop.py": _presence,
    "appliance/cluster/kept_image.py": _kept_image,
    "appliance/install/unpacked_trees.py": _old_versions,
    "controller/controller_work.py": _controller,
    "controller/datavolumes/data_volume_work.py": _data_volumes,
    "controller/late_work.py": _late,
    "handler/fencing/fence_service.py": _fencer,
    "handler/node/device_plugins.py": _device_plugins,
    "handler/node/node_loop.py": _handlers_node,
    "handler/node/node_platform.py": _platform,
    "handler/launchers/relay_service.py": _relay,
    "handler/migration/outgoing_service.py": _leaving,
    "handler/usage/usage_keeper.py": _usage_keeper,
    "kube/events.py": _events,
    "kube/informer.py": _informer,
    "kube/leases.py": _lease,
    "kube/reconcile_loop.py": _reconcile,
    "launcher/run/domain_watch.py": _domain_watch,
    "launcher/agent/guest_agent.py": _guest_agent,
    "launcher/agent/credential_keeper.py": _credential_keeper,
    "launcher/hotplug/device_keeper.py": _disk_keeper,
    "launcher/metrics/metrics_keeper.py": _metrics_keeper,
    "standalone/agent/pod/address_sweep.py": _sweep,
    "standalone/agent/container/container_watch.py": _watch,
    "standalone/volumes/space_watch.py": _space_watch,
    "standalone/agent/node/network_keeper.py": _keeper(
        "kvedge.standalone.agent.node.network_keeper.NetworkKeeper", MagicMock()
    ),
    "standalone/names/host_names.py": _host_names,
    "controller/alarms/words/teller_desk.py": _keeper(
        "kvedge.controller.alarms.words.teller_desk.TellerDesk", MagicMock(), MagicMock(), MagicMock(), MagicMock()
    ),
    "controller/alarms/words/tellers.py": lambda thrown, path, patch: Teller(
        MagicMock(news_for=lambda name: thrown() or ()), Channel("noc", MagicMock(), 1, 0.0), ""
    ),
    "network/lan/node_lans.py": _keeper("kvedge.network.lan.node_lans.NodeLansKeeper"),
    "standalone/apiserver/audit_log.py": _audit_log,
    "standalone/agent/pod/log_keeper.py": _keeper("kvedge.standalone.agent.pod.log_keeper.LogKeeper", Path("pods")),
    "standalone/agent/pod/volume_keeper.py": _keeper(
        "kvedge.standalone.agent.pod.volume_keeper.VolumeKeeper", MagicMock(), MagicMock()
    ),
    "standalone/agent/pod/resolv_conf_keeper.py": _keeper(
        "kvedge.standalone.agent.pod.resolv_conf_keeper.ResolvConfKeeper", MagicMock()
    ),
    "standalone/agent/node/node_loop.py": _agents_node,
    "standalone/agent/pod/pod_probes.py": _probes,
    "runtime/rounds.py": lambda thrown, path, patch: Rounds("rounds", "goes round", 0.01, thrown),
    "standalone/drop_ins/drop_in_loop.py": _drop_ins,
}
TASKS: dict[str, Callable[[Thrown, pytest.MonkeyPatch], Any]] = {
    "standalone/apiserver/api_server.py": lambda thrown, patch: _Renewal(thrown, patch),
    "standalone/apiserver/loops/copy_loop.py": lambda thrown, patch: CopyLoop(
        MagicMock(make=thrown),
        MagicMock(),
        MagicMock(get=lambda key: None),
        MagicMock(),
        "node",
        lambda: datetime.now(UTC),
    ),
    "standalone/apiserver/loops/csr_loop.py": lambda thrown, patch: CsrLoop(
        MagicMock(cache=MagicMock(in_namespace=lambda _: thrown() or ())), MagicMock(), MagicMock(), MagicMock()
    ),
    "standalone/apiserver/loops/expiry_loop.py": lambda thrown, patch: ExpiryLoop(
        MagicMock(cache=MagicMock(in_namespace=lambda _: thrown() or ())), MagicMock(), MagicMock()
    ),
    "web/on_box/box_console.py": lambda thrown, patch: _ConsoleUpkeep(thrown, patch),
    "standalone/apiserver/loops/work_loop.py": lambda thrown, patch: _filled(WorkLoop("loop", thrown.later)),
}
# Tested where they are at home, or by one of the above.
ELSEWHERE = {
    "storage/imports/progress_server.py": "tests/unit/storage/imports/test_progress_server.py",
    "storage/backups/live/disk_server.py": "tests/unit/launcher/disks/test_returning_disk.py",
    "runtime/serving/connection_acceptor.py": "tests/unit/runtime/serving/test_https_server.py",
    "handler/launchers/launcher_connections.py": "tests.unit.handler.launchers.test_launcher_speech.py",
    "launcher/libvirt/libvirt_events.py": "one call of libvirt in a loop",
}


def _filled(loop: WorkLoop[str]) -> WorkLoop[str]:
    loop.add("a")
    return loop


def test_all_background_work_is_thrown_at() -> None:
    helpers = {"runtime/background.py", "runtime/background_tasks.py"}
    assert {file for file, _, name in calls() if name in _HELPERS} - helpers == {*THREADS, *TASKS, *ELSEWHERE}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.01)
    found: list[str] = []
    forget = on_trouble(lambda name, what: found.append(what))
    yield found
    forget()


ERRORS = [ValueError, OverflowError, MemoryError]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("file", THREADS)
def test_a_thread_outlives_any_exception(
    file: str, error: type[Exception], told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thrown = Thrown(error)
    made = THREADS[file](thrown, tmp_path, monkeypatch)
    already = isinstance(made, BackgroundThread) or any(
        isinstance(value, BackgroundThread) and value.is_alive() for value in vars_of(made)
    )
    if not already:
        made.start()
    assert thrown.again.wait(30), "it begins anew"
    assert any(error.__name__ in what or "no" in what for what in told), "it is told"
    if hasattr(made, "failure"):
        assert made.failure() is None or file == "controller/controller_work.py"
    made.stop()


def vars_of(made: Any) -> list[Any]:
    return [getattr(made, name, None) for name in ("_thread",)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("file", TASKS)
def test_a_task_outlives_any_exception(
    file: str, error: type[Exception], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thrown = Thrown(error)

    async def turn() -> None:
        made = TASKS[file](thrown, monkeypatch)
        made.start()
        async with asyncio.timeout(30):
            while not thrown.again.is_set():
                await asyncio.sleep(0.01)
        made.stop()
        await asyncio.sleep(0)

    asyncio.run(turn())
    if (file, error) != ("standalone/apiserver/api_server.py", ValueError):
        # That one is expected there: a file that holds something else.
        assert told == [f"{error.__name__}: on purpose"] * 2

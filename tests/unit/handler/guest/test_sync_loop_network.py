# Tests: kvedge/handler/guest/sync_loop.py, kvedge/handler/guest/launcher_sync.py
"""What the sync loop makes of a Pod's network: what it tells the user, what it waits for, and what ends a run."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.handler.guest import lan_watch
from kvedge.handler.guest.guest_network import PreparedNic, Resolver
from kvedge.handler.guest.vmi_status import GuestNic
from kvedge.handler.launchers.sync_plan import RESOLVER_SECONDS, LauncherView
from kvedge.kube.patches import MergePatch
from kvedge.network.errors import MacInUseError, NetworkError, UnsuitablePodError
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import BindingPlugin
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import bridged, vmi_with
from tests.support.clocks import FakeClock
from tests.unit.handler.guest.sync_loops import NODE, a_sync_loop

SHORTFALL = "the CNI gave the Pod's eth0 no address: nobody answers the guest's DHCP"

NOWHERE = Resolver()
HOME = Resolver(nameservers=("192.0.2.1",), search=("lan",))
ELSEWHERE = Resolver(nameservers=("198.51.100.1",))


def vmi(name: str = "web", created: str = "2026-01-02T00:00:00Z", phase: str = "Scheduled") -> VirtualMachineInstance:
    spec = bridged(macAddress="52:54:00:00:00:01")
    status = {"phase": phase, "nodeName": NODE, "activePods": {"pod-uid": NODE}}
    return vmi_with(spec, status, name=name, namespace="shop", uid=f"uid-{name}", creationTimestamp=created)


@dataclass
class FakeConnections:
    """One launcher that is there and, once synced, runs its guest."""

    state: Any = pb.DOMAIN_STATE_ABSENT
    synced: bool = False

    def ensure(self, *_: object) -> None: ...

    def launcher(self, _: object) -> Any:
        return nullcontext("the launcher")

    def note(self, *_: object) -> None:
        """Steps of a start are of no matter here."""

    def pod_uid(self, _: object) -> str:
        return "pod-uid"

    def view(self, _: object) -> LauncherView:
        return LauncherView(connected=True, synced=self.synced, status=pb.DomainStatus(state=self.state))

    def call(self, _key: object, method: str, _request: object, _seconds: float) -> pb.DomainStatus:
        assert method == "Sync"
        self.state, self.synced = pb.DOMAIN_STATE_RUNNING, True
        return pb.DomainStatus(state=self.state)


@dataclass
class FakeNetwork:
    """Answers, or fails, as a test wants."""

    failure: NetworkError | None = None
    router_failure: NetworkError | None = None
    shortfalls: tuple[str, ...] = ()
    prepared: int = 0
    keep_failure: NetworkError | None = None
    kept: int = 0
    now: Resolver | NetworkError = NOWHERE
    told: list[Resolver] = field(default_factory=list)
    plugins: dict[str, BindingPlugin] = field(default_factory=dict)

    def resolver(self, _: object) -> Resolver:
        if isinstance(self.now, NetworkError):
            raise self.now
        return self.now

    def prepare(self, _vmi: object, _launcher: object, resolver: Resolver, _names: object = None) -> list[PreparedNic]:
        self.prepared += 1
        self.told.append(resolver)
        if self.failure is not None:
            raise self.failure
        nic = GuestNic("default", "52:54:00:00:00:01", (), "eth0")
        return [PreparedNic(pb.GuestInterface(name="default"), nic, self.shortfalls)]

    def keep(self, *_: object) -> None:
        self.kept += 1
        if self.keep_failure is not None:
            raise self.keep_failure

    def introduce_routers(self, *_: object) -> None:
        if self.router_failure is not None:
            raise self.router_failure


@dataclass
class Scene:
    """A loop over VMIs that are given, with what it wrote and said."""

    network: FakeNetwork
    connections: FakeConnections = field(default_factory=FakeConnections)
    vmis: list[VirtualMachineInstance] = field(default_factory=lambda: [vmi()])
    said: list[tuple[str, str]] = field(default_factory=list)
    written: list[JsonObject] = field(default_factory=list)
    clock: FakeClock = field(default_factory=FakeClock)
    loop: Any = None

    def run(self, later: float = 0.0) -> None:
        """One pass over the VMI named web, so many seconds after the one before."""
        self.clock.seconds += later
        self.loop = self.loop or self._loop()
        self.loop.reconcile(("shop", "web"))

    def _loop(self) -> Any:
        return a_sync_loop(
            vmis=SimpleNamespace(
                get=lambda *_: next(item for item in self.vmis if item.metadata.name == "web"),
                list=lambda: self.vmis,
                observe=lambda _: None,
            ),
            connections=self.connections,
            network=self.network,
            patch=self._patch,
            said=self.said,
            clock=self.clock,
        )

    def _patch(self, _kind: object, _namespace: str, _name: str, patch: MergePatch) -> VirtualMachineInstance:
        self.written.append(patch.body)
        return self.vmis[0]

    def status(self) -> JsonObject:
        """What was written last."""
        found = self.written[-1]["status"]
        assert isinstance(found, dict)
        return found


def test_what_the_guest_does_not_get_is_an_event_and_the_guest_runs() -> None:
    scene = Scene(FakeNetwork(shortfalls=(SHORTFALL,)))
    scene.run()
    assert ("NetworkIncomplete", SHORTFALL) in scene.said
    assert scene.status()["phase"] == "Running"


def test_a_launcher_that_cannot_take_its_router_socket_has_a_guest_without_ipv6() -> None:
    scene = Scene(FakeNetwork(router_failure=NetworkError("cannot hand over", subject="k6t-eth0")))
    scene.run()
    assert ("NetworkIncomplete", "the guest gets no IPv6: cannot hand over k6t-eth0") in scene.said
    assert scene.status()["phase"] == "Running"


def test_a_pod_that_can_carry_no_guest_ends_the_run_with_the_remedy() -> None:
    scene = Scene(FakeNetwork(failure=UnsuitablePodError("cannot bind", subject="eth0", why="x", remedy="have a CNI")))
    scene.run()
    assert (scene.status()["phase"], scene.status()["reason"]) == ("Failed", "cannot bind eth0: x; have a CNI")


def test_what_may_pass_is_a_condition_and_is_tried_again() -> None:
    scene = Scene(FakeNetwork(failure=NetworkError("cannot bind", subject="eth0", why="the Pod has no such interface")))
    scene.run()
    (condition,) = [each for each in scene.status()["conditions"] if each["type"] == "Synchronized"]  # type: ignore[union-attr,index,call-overload]
    assert (condition["status"], condition["message"]) == ("False", "cannot bind eth0: the Pod has no such interface")
    assert "phase" not in scene.status()


def test_the_second_guest_with_a_mac_waits_for_the_first() -> None:
    scene = Scene(FakeNetwork(), vmis=[vmi(), vmi("first", "2026-01-01T00:00:00Z")])
    scene.run()
    assert scene.network.prepared == 0
    assert [
        text for reason, text in scene.said if "VMI shop/first of this node has it" in text and reason == "SyncFailed"
    ]


@pytest.mark.parametrize("state", [pb.DOMAIN_STATE_RUNNING, pb.DOMAIN_STATE_PAUSED])
def test_a_guest_that_runs_is_served_whoever_else_has_its_mac(state: Any) -> None:
    scene = Scene(FakeNetwork(), FakeConnections(state), vmis=[vmi(), vmi("first", "2026-01-01T00:00:00Z")])
    scene.run()
    assert scene.network.prepared == 1


def test_a_mac_in_use_is_a_network_error_that_a_later_try_may_cure() -> None:
    scene = Scene(FakeNetwork(failure=MacInUseError("cannot give the guest its MAC")))
    scene.run()
    assert "phase" not in scene.status()


def told_after(first: Resolver, then: Resolver | NetworkError) -> list[Resolver]:
    """What a guest is told that starts with one resolver, and then has another."""
    scene = Scene(FakeNetwork(now=first))
    scene.run()
    scene.network.now = then
    scene.run(RESOLVER_SECONDS / 2)
    assert scene.network.told == [first]
    scene.run(RESOLVER_SECONDS / 2)
    scene.run(RESOLVER_SECONDS)
    return scene.network.told


def test_a_guest_that_runs_is_told_of_other_name_servers_within_the_minute() -> None:
    assert told_after(NOWHERE, HOME) == [NOWHERE, HOME]
    assert told_after(HOME, ELSEWHERE) == [HOME, ELSEWHERE]


def test_a_guest_keeps_its_name_servers_while_the_node_has_none() -> None:
    assert told_after(HOME, Resolver(search=("lan",))) == [HOME]


def test_the_same_name_servers_are_no_news() -> None:
    assert told_after(HOME, Resolver(("192.0.2.1",), (), ("lan",))) == [HOME]


def test_a_launcher_that_has_ended_has_no_name_servers_to_compare() -> None:
    assert told_after(HOME, NetworkError("cannot read")) == [HOME]


def test_telling_a_guest_of_other_name_servers_is_tried_until_it_is_done() -> None:
    scene = Scene(FakeNetwork(now=HOME))
    scene.run()
    scene.network.now, scene.network.failure = ELSEWHERE, NetworkError("cannot bind")
    scene.run(RESOLVER_SECONDS)
    scene.network.now, scene.network.failure = HOME, None
    scene.run(3.0)
    scene.run(3.0)
    assert scene.network.told == [HOME, ELSEWHERE, HOME]


def test_the_network_of_a_guest_that_runs_is_put_right_once_in_a_while() -> None:
    scene = Scene(FakeNetwork(now=HOME))
    scene.run()
    scene.run(RESOLVER_SECONDS / 2)
    assert scene.network.kept == 0
    scene.run(RESOLVER_SECONDS / 2)
    assert (scene.network.kept, scene.network.prepared) == (1, 1)


def test_a_network_that_cannot_be_put_right_is_prepared_anew_and_told() -> None:
    scene = Scene(FakeNetwork(now=HOME))
    scene.run()
    scene.network.keep_failure = scene.network.failure = NetworkError("cannot change nftables table")
    scene.run(RESOLVER_SECONDS)
    assert scene.network.prepared == 2
    assert ("SyncFailed", "cannot change nftables table") in scene.said


class SilentConnections(FakeConnections):
    """A launcher that has not answered for a minute."""

    def view(self, _: object) -> LauncherView:
        return LauncherView(down_seconds=60.0)


def test_a_launcher_that_runs_and_does_not_answer_is_told_and_its_run_not_called_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, str]] = []

    def runs(vmi_uid: str, pod_uid: str) -> bool:
        asked.append((vmi_uid, pod_uid))
        return True

    monkeypatch.setattr("kvedge.handler.guest.sync_loop.runs_here", runs)
    scene = Scene(FakeNetwork(), SilentConnections())
    scene.vmis[0].status.phase = "Running"
    scene.run()
    assert asked == [(scene.vmis[0].metadata.uid, "pod-uid")]
    (said,) = [item for item in scene.status()["conditions"] if item["type"] == "Synchronized"]  # type: ignore[union-attr]
    assert (said["status"], said["reason"]) == ("False", "LauncherNotResponding")
    assert "phase" not in scene.status()
    assert ("LauncherNotResponding", "the launcher runs, but has not answered for 30 s") in scene.said
    monkeypatch.setattr("kvedge.handler.guest.sync_loop.runs_here", lambda *_: False)
    scene.run()
    assert scene.status()["phase"] == "Failed"


def test_a_nic_that_is_lost_is_told_and_looked_for_once_in_a_while_and_all_else_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lan_watch, "hold_network", lambda _: nullcontext(7))
    monkeypatch.setattr(lan_watch, "ends_of", lambda _netns, _nics: {})
    spec = {
        "domain": {"devices": {"interfaces": [{"name": "default", "bridge": {}}, {"name": "lan", "bridge": {}}]}},
        "networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}],
    }
    rows = [{"name": "lan", "mac": "52:54:00:00:00:02", "podInterfaceName": "pod1", "infoSource": "domain"}]
    status = {"phase": "Running", "nodeName": NODE, "activePods": {"pod-uid": NODE}, "interfaces": rows}
    lost = vmi_with(spec, status, name="web", namespace="shop", uid="uid-web")

    @dataclass
    class Lossy(FakeNetwork):
        is_lost: bool = True

        def prepare(self, vmi: object, launcher: object, resolver: Resolver, names: Any = None) -> list[PreparedNic]:
            if "lan" not in (names or ()):
                return super().prepare(vmi, launcher, resolver)
            if self.is_lost:
                raise UnsuitablePodError("cannot bind", subject="pod1", why="the Pod has no such interface")
            return [PreparedNic(pb.GuestInterface(name="lan"), GuestNic("lan", rows[0]["mac"], (), "pod1"))]

    network, connections = Lossy(), FakeConnections(state=pb.DOMAIN_STATE_RUNNING)
    scene = Scene(network, connections, [lost])
    scene.run()
    assert connections.synced, "the launcher is told of all that is there"
    text = "spec.networks[1] (lan): the guest is cut off: cannot bind pod1: the Pod has no such interface"
    assert ("NetworkCutOff", text) in scene.said
    (found,) = [each for each in scene.status()["conditions"] if each["type"] == "Synchronized"]
    assert (found["reason"], found["message"]) == ("NetworkCutOff", text)
    assert "lan" in [row["name"] for row in scene.status()["interfaces"]]
    before = network.prepared
    scene.run(3.0)
    assert network.prepared == before, "not with every pass"
    network.is_lost = False
    scene.run(RESOLVER_SECONDS)
    assert network.prepared > before
    assert "Synchronized" not in [each["type"] for each in scene.status().get("conditions") or []]

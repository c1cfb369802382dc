"""A NIC of the host that becomes a port of a bridge, with connections over it: there, back, and cut short between."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.link_types import FIRST_ADDRESS_MARK
from kvedge.network.links import Links
from kvedge.network.netns import run_in_netns
from kvedge.network.nics import nic_change, nic_move
from kvedge.network.nics.nic_back import give_all_back, give_back, take_back
from kvedge.network.nics.nic_change import make_step
from kvedge.network.nics.nic_edge import NicEdge
from kvedge.network.nics.nic_filters import filters_of_nic
from kvedge.network.nics.nic_guard import outcome, start_guard, wait_moved
from kvedge.network.nics.nic_journal import NicBusyError, NicJournal
from kvedge.network.nics.nic_move import survey_nic, try_nic
from kvedge.network.nics.nic_replay import NicHealth, replay_nics
from kvedge.network.nics.nic_state import KeptRoute, NicPhase
from kvedge.network.nics.nic_steps import LeadRoute, NicStep
from kvedge.network.sysctls import read_sysctl, write_sysctl
from tests.machine.network.killed_steps import KilledError
from tests.machine.network.nic_world import BRIDGE, HOST, HOST6, NIC, SECOND, NicWorld, Talk, nic_world
from tests.support.pictures import ip_json
from tests.support.values import replace
from tests.support.waiting import wait_until

POOLED, POOLED6 = "192.0.2.150", "2001:db8::150"
pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NicWorld]:
    with nic_world(tmp_path_factory.mktemp("nic")) as made:
        yield made


@pytest.fixture
def journal(world: NicWorld) -> Iterator[NicJournal]:
    """The records of a host that is afterwards as it was before."""
    before = world.state()
    world.journal.mkdir(exist_ok=True)
    yield NicJournal(world.journal)
    wait_until(lambda: world.state() == before, "the host is as it was", 10)
    assert NicJournal(world.journal).bridges() == []


def addresses(world: NicWorld, link: str) -> set[str]:
    return {each["local"] for each in ip_json(world.host.name, "address", "show", "dev", link)[0]["addr_info"]}


def same(state: dict[str, object], other: dict[str, object]) -> bool:
    """Whether the same is on the links, in whichever order they came to be."""
    return {key: sorted(map(repr, value)) for key, value in state.items()} == {
        key: sorted(map(repr, value)) for key, value in other.items()
    }


def step_until(most: int, error: BaseException) -> Callable[[Links, NicEdge, NicStep], None]:
    """Makes so many steps, and then none."""
    made: list[NicStep] = []

    def step(links: Links, edge: NicEdge, one: NicStep) -> None:
        if len(made) == most:
            raise error
        made.append(one)
        make_step(links, edge, one)

    return step


def confirmed(world: NicWorld, journal: NicJournal) -> None:
    """Move the NIC; the word is there as soon as it is waited for."""
    assert run_in_netns(world.host, lambda: try_nic(journal, NIC, BRIDGE, 5, lambda _: journal.confirm(BRIDGE)))


def test_connections_live_on_there_and_back(world: NicWorld, journal: NicJournal) -> None:
    talks = [Talk(world, address) for address in (HOST, SECOND, HOST6)]
    try:
        for talk in talks:
            talk.says(b"before")
        confirmed(world, journal)
        for talk in talks:
            talk.says(b"moved")
        assert {HOST, SECOND, HOST6} <= addresses(world, BRIDGE)
        assert addresses(world, NIC) == set()
        bridge = ip_json(world.host.name, "link", "show", BRIDGE)[0]
        nic = ip_json(world.host.name, "link", "show", NIC)[0]
        assert (bridge["address"], bridge["mtu"], nic["master"]) == (nic["address"], nic["mtu"], BRIDGE)
        assert run_in_netns(world.host, lambda: read_sysctl(f"ipv4/conf/{BRIDGE}/rp_filter")) == "1"
        assert run_in_netns(world.host, lambda: replay_nics(world.journal)) == NicHealth()
        assert run_in_netns(world.host, lambda: give_back(journal, BRIDGE))
        for talk in talks:
            talk.says(b"back")
    finally:
        for talk in talks:
            talk.close()


def test_the_way_from_the_host_leads_by_the_bridge(world: NicWorld, journal: NicJournal) -> None:
    before = world.state()["routes"]
    confirmed(world, journal)
    moved = world.state()["routes"]
    assert repr(moved).replace(BRIDGE, NIC) == repr(before)
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_an_address_of_a_pool_is_none_of_the_host_s_own(world: NicWorld, journal: NicJournal) -> None:
    def add() -> None:
        with Links() as links:
            links.add_side_address(NIC, POOLED, FIRST_ADDRESS_MARK)
            links.add_side_address(NIC, POOLED6, 255)

    def remove() -> None:
        with Links() as links:
            links.delete_address(NIC, POOLED, 32)
            links.delete_address(NIC, POOLED6, 128)

    run_in_netns(world.host, add)
    try:
        confirmed(world, journal)
        record = journal.read(BRIDGE)
        assert record is not None
        assert {each.address for each in record.addresses} == {HOST, SECOND, HOST6}
        # Its keeper puts it on the bridge.
        assert not {POOLED, POOLED6} & addresses(world, BRIDGE)
        run_in_netns(world.host, lambda: give_back(journal, BRIDGE))
    finally:
        run_in_netns(world.host, remove)


def test_nobody_has_confirmed(world: NicWorld, journal: NicJournal) -> None:
    seen: list[set[str]] = []
    stays = run_in_netns(
        world.host, lambda: try_nic(journal, NIC, BRIDGE, 0.1, lambda _: seen.append(addresses(world, BRIDGE)))
    )
    assert not stays
    assert HOST in seen[0]


def test_a_word_that_was_left_before_the_move_was_done_is_none(
    world: NicWorld, journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(links: Links, edge: NicEdge, one: NicStep) -> None:
        journal.confirm(BRIDGE)
        make_step(links, edge, one)

    with monkeypatch.context() as hasty:
        hasty.setattr(nic_change, "make_step", step)
        assert not run_in_netns(world.host, lambda: try_nic(journal, NIC, BRIDGE, 0.1, lambda _: None))


def test_kill_9_between_any_two_steps_is_put_right_by_the_agent(
    world: NicWorld, journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.state()
    made: list[NicStep] = []
    most = 0

    def step(links: Links, edge: NicEdge, one: NicStep) -> None:
        if len(made) == most:
            raise KilledError
        made.append(one)
        make_step(links, edge, one)

    # What a process does that is killed: nothing more.
    monkeypatch.setattr(nic_change, "make_step", step)
    monkeypatch.setattr(nic_move, "put_back", lambda journal, record: None)
    finished = False
    while not finished:
        made.clear()
        try:
            run_in_netns(world.host, lambda: try_nic(journal, NIC, BRIDGE, 0.1, lambda _: None))
            finished = True
        except KilledError:
            pass
        with monkeypatch.context() as healthy:
            healthy.setattr(nic_change, "make_step", make_step)
            healed = run_in_netns(world.host, lambda: replay_nics(world.journal))
        assert healed.healed == (f"{NIC} is itself again: nobody has confirmed {BRIDGE}",), made
        assert healed.troubles == ()
        wait_until(lambda: world.state() == before, f"the host is as it was after {most} steps")
        most += 1
    assert most > 15


def test_a_way_back_that_was_cut_short_is_gone_to_its_end(
    world: NicWorld, journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.state()
    most, killed = 0, True
    while killed:
        confirmed(world, journal)
        with monkeypatch.context() as dying:
            dying.setattr(nic_change, "make_step", step_until(most, KilledError()))
            try:
                run_in_netns(world.host, lambda: give_back(journal, BRIDGE))
                killed = False
            except KilledError:
                pass
        run_in_netns(world.host, lambda: give_back(journal, BRIDGE))
        wait_until(lambda: world.state() == before, f"the host is as it was after {most} steps")
        most += 1
    assert most > 5


def test_a_bridge_that_somebody_removed_is_made_again(world: NicWorld, journal: NicJournal) -> None:
    confirmed(world, journal)
    # As kvedge switches it on all links when it starts.
    was = run_in_netns(world.host, lambda: read_sysctl("ipv4/ip_forward"))
    run_in_netns(world.host, lambda: write_sysctl("ipv4/ip_forward", "0" if was == "1" else "1"))
    subprocess.run(["ip", "-n", world.host.name, "link", "delete", BRIDGE], check=True)
    found = run_in_netns(world.host, lambda: replay_nics(world.journal))
    assert found.healed == (f"{NIC} was not on {BRIDGE}",)
    assert run_in_netns(world.host, lambda: read_sysctl(f"ipv4/conf/{BRIDGE}/forwarding")) != was
    run_in_netns(world.host, lambda: write_sysctl("ipv4/ip_forward", str(was)))
    talk = Talk(world)
    talk.says(b"again")
    talk.close()
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_a_kept_bridge_whose_making_was_cut_short_is_made_to_its_end(
    world: NicWorld, journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed(world, journal)
    whole = world.state()
    most, killed = 0, True
    while killed:
        subprocess.run(["ip", "-n", world.host.name, "link", "delete", BRIDGE], check=True)
        with monkeypatch.context() as dying:
            dying.setattr(nic_change, "make_step", step_until(most, KilledError()))
            try:
                run_in_netns(world.host, lambda: replay_nics(world.journal))
                killed = False
            except KilledError:
                pass
        run_in_netns(world.host, lambda: replay_nics(world.journal))
        assert run_in_netns(world.host, lambda: replay_nics(world.journal)) == NicHealth()
        wait_until(lambda: same(world.state(), whole), f"everything is on the bridge after {most} steps")
        most += 1
    assert most > 15
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_a_bridge_that_cannot_be_made_again_leaves_the_host_on_its_nic(
    world: NicWorld, journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed(world, journal)
    ip = ["ip", "-n", world.host.name]
    subprocess.run([*ip, "link", "add", "guest", "type", "veth", "peer", "name", "guestend"], check=True)
    for guests in ((), ("guest",)):
        if guests:
            subprocess.run([*ip, "link", "set", "guest", "master", BRIDGE], check=True)
        subprocess.run([*ip, "address", "delete", f"{SECOND}/24", "dev", BRIDGE], check=True)

        def step(links: Links, edge: NicEdge, one: NicStep) -> None:
            if isinstance(one, LeadRoute) and one.link == BRIDGE:
                raise NetworkError("this kernel has no room")
            make_step(links, edge, one)

        with monkeypatch.context() as refusing:
            refusing.setattr(nic_change, "make_step", step)
            told = run_in_netns(world.host, lambda: replay_nics(world.journal))
        assert told.troubles == ("this kernel has no room",)
        assert {HOST, SECOND, HOST6} <= addresses(world, NIC)
        talk = Talk(world)
        talk.says(b"reached")
        talk.close()
        assert run_in_netns(world.host, lambda: replay_nics(world.journal)).troubles == ()
        assert {HOST, SECOND, HOST6} <= addresses(world, BRIDGE)
    subprocess.run([*ip, "link", "delete", "guest"], check=True)
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_what_routers_tell_is_no_address_to_carry_but_a_host_to_guard(world: NicWorld, journal: NicJournal) -> None:
    def ip(*words: str) -> None:
        subprocess.run(["ip", "-n", world.host.name, *words], check=True)

    learnt = {
        "an address": ("-6", "address", "{}", "2001:db8:5::7/64", "dev", "idle0"),
        "a route": ("-6", "route", "{}", "2001:db8:6::/64", "dev", "idle0", "proto", "ra"),
    }
    ip("link", "add", "idle0", "type", "veth", "peer", "name", "idle1")
    ip("link", "set", "idle0", "up")
    try:
        assert not run_in_netns(world.host, lambda: survey_nic("idle0", "kvb-idle0")).carries_host
        for what, words in learnt.items():
            lifetimes = ("valid_lft", "600", "preferred_lft", "600", "nodad") if what == "an address" else ()
            ip(*(word.format("add") for word in words), *lifetimes)
            record = run_in_netns(world.host, lambda: survey_nic("idle0", "kvb-idle0"))
            assert (record.addresses, record.routes, record.carries_host) == ((), (), True), what
            ip(*(word.format("delete") for word in words))
    finally:
        ip("link", "delete", "idle0")


def test_guests_keep_their_bridge(world: NicWorld, journal: NicJournal) -> None:
    confirmed(world, journal)
    ip = ["ip", "-n", world.host.name, "link"]
    subprocess.run([*ip, "add", "guest", "type", "veth", "peer", "name", "guestend"], check=True)
    subprocess.run([*ip, "set", "guest", "master", BRIDGE], check=True)
    with pytest.raises(NetworkError, match=f"cannot give NIC back {NIC}: guests are on {BRIDGE}; stop their VMs"):
        run_in_netns(world.host, lambda: give_back(journal, BRIDGE))
    subprocess.run([*ip, "delete", "guest"], check=True)
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


@pytest.mark.parametrize("phase", [NicPhase.MOVING, NicPhase.MOVED, NicPhase.KEPT])
def test_a_nic_goes_to_one_bridge(world: NicWorld, journal: NicJournal, phase: NicPhase) -> None:
    other = replace(run_in_netns(world.host, lambda: survey_nic(NIC, "br-other")), phase=phase)
    journal.write(other)
    try:
        with pytest.raises(NetworkError, match="moved already eth0: br-other was made of it; say --bridge br-other"):
            run_in_netns(world.host, lambda: try_nic(journal, NIC, BRIDGE, 0.1))
    finally:
        journal.remove("br-other")
    # Whoever has started it reads why, and then it is forgotten.
    failed = run_in_netns(world.host, lambda: take_back(journal, BRIDGE))
    assert failed is not None
    assert (failed.phase, journal.read(BRIDGE)) == (NicPhase.FAILED, None)


def test_what_is_kept_is_not_taken_back(world: NicWorld, journal: NicJournal) -> None:
    confirmed(world, journal)
    kept = journal.read(BRIDGE)
    with journal.hold(BRIDGE), pytest.raises(NicBusyError):
        take_back(journal, BRIDGE)
    assert run_in_netns(world.host, lambda: take_back(journal, BRIDGE)) == kept == journal.read(BRIDGE)
    assert HOST in addresses(world, BRIDGE)
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_what_is_confirmed_is_kept_or_given_back_and_one_failure_holds_up_no_other(
    world: NicWorld, journal: NicJournal
) -> None:
    confirmed(world, journal)
    (world.journal / "br-bad.json").write_text("{}")
    for keeps in (True, False):
        left = run_in_netns(world.host, lambda keeps=keeps: give_all_back(world.journal, keeps_confirmed=keeps))
        assert [text.partition(":")[0] for text in left] == ["cannot read the record of bridge br-bad"]
        assert HOST in addresses(world, BRIDGE if keeps else NIC), keeps
    assert journal.bridges() == ["br-bad"]
    journal.remove("br-bad")


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_the_guard_ends_before_it_is_confirmed(world: NicWorld, journal: NicJournal, sent: signal.Signals) -> None:
    guard = run_in_netns(world.host, lambda: start_guard(journal, NIC, BRIDGE, {}))
    assert wait_moved(journal, BRIDGE, guard) is NicPhase.MOVED
    assert outcome(journal, BRIDGE) is None
    assert run_in_netns(world.host, lambda: replay_nics(world.journal)) == NicHealth()
    guard.send_signal(sent)
    guard.wait(30)
    assert run_in_netns(world.host, lambda: outcome(journal, BRIDGE)) is False


def test_the_guard_is_confirmed(world: NicWorld, journal: NicJournal) -> None:
    guard = run_in_netns(world.host, lambda: start_guard(journal, NIC, BRIDGE, {}))
    assert wait_moved(journal, BRIDGE, guard) is NicPhase.MOVED
    journal.confirm(BRIDGE)
    assert guard.wait(30) == 0
    assert outcome(journal, BRIDGE) is True
    # What is kept is kept: a second move does not touch it.
    with pytest.raises(NetworkError, match="NIC is moved already"):
        run_in_netns(world.host, lambda: try_nic(journal, NIC, BRIDGE, 0.1))
    assert outcome(journal, BRIDGE) is True
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


def test_the_guard_says_why_not(world: NicWorld, journal: NicJournal) -> None:
    guard = run_in_netns(world.host, lambda: start_guard(journal, "eth7", BRIDGE, {}))
    with pytest.raises(NetworkError, match="there is no NIC eth7"):
        wait_moved(journal, BRIDGE, guard)
    assert guard.wait(30) != 0


@pytest.mark.parametrize(
    ("done", "undone", "said"),
    [
        (
            "ip link add up0 link eth0 type macvlan",
            "ip link delete up0",
            "up0 takes its frames; remove it",
        ),
        (
            "ip address add 192.0.2.4/24 dev eth0 valid_lft 600 preferred_lft 600",
            "ip address delete 192.0.2.4/24 dev eth0",
            "192.0.2.4 is a lease",
        ),
        ("ip rule add iif eth0 table 77", "ip rule delete iif eth0 table 77", "rules of `ip rule` name it"),
        (
            "ip address add 192.0.2.5 peer 192.0.2.6/32 dev eth0",
            "ip address delete 192.0.2.5 peer 192.0.2.6/32 dev eth0",
            "point-to-point address .to 192.0.2.6",
        ),
        (
            "ip route add 198.18.0.0/15 nexthop via 192.0.2.1 dev eth0 nexthop via 192.0.2.9 dev eth0",
            "ip route delete 198.18.0.0/15",
            "the route to 198.18.0.0/15 has several next hops",
        ),
        ("ip link add kvb-eth0 type bridge", "ip link delete kvb-eth0", "there is a link kvb-eth0 already"),
    ],
    ids=["a macvlan", "a lease", "a rule", "a peer", "several hops", "another bridge"],
)
def test_what_cannot_be_moved_is_said_and_left(
    world: NicWorld, journal: NicJournal, done: str, undone: str, said: str
) -> None:
    def run(command: str) -> None:
        subprocess.run(["ip", "netns", "exec", world.host.name, *command.split()], check=True)

    run(done)
    try:
        with pytest.raises(NetworkError, match=said):
            run_in_netns(world.host, lambda: survey_nic(NIC, BRIDGE))
    finally:
        run(undone)


def test_the_journal_of_another_boot_is_judged_by_what_the_host_has_now(world: NicWorld, journal: NicJournal) -> None:
    record = run_in_netns(world.host, lambda: survey_nic(NIC, BRIDGE))
    journal.write(replace(record, boot="earlier", phase=NicPhase.MOVED))
    before = world.state()
    run_in_netns(world.host, lambda: replay_nics(world.journal))
    assert (journal.bridges(), world.state()) == ([], before)
    journal.write(replace(record, boot="earlier", phase=NicPhase.KEPT, addresses=record.addresses[:1]))
    told = run_in_netns(world.host, lambda: replay_nics(world.journal))
    assert "it has other addresses than when kvb-eth0 was made of it" in told.troubles[0]
    assert world.state() == before
    # Its maker may still be at work.
    late = replace(
        record, boot="earlier", phase=NicPhase.KEPT, routes=(*record.routes, KeptRoute("198.18.0.0/15", HOST))
    )
    journal.write(late)
    told = run_in_netns(world.host, lambda: replay_nics(world.journal))
    assert "it lacks the route to 198.18.0.0/15, which it had when kvb-eth0 was made of it" in told.troubles[0]
    assert (world.state(), journal.read(BRIDGE)) == (before, late)
    journal.write(replace(record, boot="earlier", phase=NicPhase.KEPT))
    assert run_in_netns(world.host, lambda: replay_nics(world.journal)).healed == (f"{NIC} was not on {BRIDGE}",)
    assert HOST in addresses(world, BRIDGE)
    run_in_netns(world.host, lambda: give_back(journal, BRIDGE))


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ('iifname "eth0" drop', True),
        ('oifname "eth*" accept', True),
        ("iif eth0 drop", True),
        ('iifname { "eth0", "lo" } accept', True),
        ('iifname vmap { "eth0" : accept }', True),
        ('iifname "eth00" drop', False),
        ('iifname "lo" tcp dport 22 accept', False),
        ("iif lo accept", False),
        ("tcp dport { 22, 80 } accept", False),
    ],
)
def test_filters_that_know_the_nic_are_found(world: NicWorld, rule: str, found: bool) -> None:
    table = f"table inet fw {{\n chain in {{\n type filter hook input priority 0\n {rule}\n }}\n}}\n"
    nft = ["ip", "netns", "exec", world.host.name, "nft"]
    subprocess.run([*nft, "-f", "-"], input=table.encode(), check=True)
    try:
        seen = run_in_netns(world.host, lambda: filters_of_nic(NIC, socket.if_nametoindex(NIC)))
    finally:
        subprocess.run([*nft, "delete", "table", "inet", "fw"], check=True)
    assert seen == (["inet/fw"] if found else [])

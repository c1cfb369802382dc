"""A guest whose agent is out to hurt: what it says is cut and told, and nobody else has to wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kvedge.launcher.agent.guest_agent_message import LONGEST_TEXT, MOST_USERS
from kvedge.rpc import launcher_pb2 as m
from tests.support.agent_guest import NO_AGENT, agent_image, agent_vmi, false_agent, in_guest, no_agent
from tests.support.launcher_pod import LauncherPod, launcher_pod
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine

# Most of it is libvirt's, which reads up to ten megabytes.
MOST_MEMORY_KIB = 400 << 10


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, seed: Path) -> Iterator[LauncherPod]:
    """One guest without agent for all tests here."""
    image = agent_image(tmp_path_factory.mktemp("image"))
    directory = tmp_path_factory.mktemp("hostile")
    with launcher_pod(directory, seed=seed, images={"kernel-boot": image}) as started:
        started.sync(agent_vmi(started, NO_AGENT), network=True)
        wait_until(lambda: in_guest(started, "echo here"), "the guest", seconds=60)
        yield started


@pytest.fixture(autouse=True)
def _released(pod: LauncherPod) -> Iterator[None]:
    yield
    if told(pod).state == m.DOMAIN_STATE_RUNNING:
        no_agent(pod)
        # QEMU tells of a port once in a second: who opens it sooner would be taken for the one before.
        wait_until(lambda: not connected(pod), "the agent is gone")


def told(pod: LauncherPod) -> Any:
    return pod.call("GetDomain")


def trouble(pod: LauncherPod, words: str) -> None:
    wait_until(lambda: words in told(pod).agent_trouble, f"the trouble is told: {words}", seconds=30, pause=0.1)


def is_told(pod: LauncherPod, words: str) -> bool:
    """Whether the trouble is told within some seconds."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if words in told(pod).agent_trouble:
            return True
        time.sleep(0.1)
    return False


def others_do_not_wait(pod: LauncherPod) -> None:
    """Calls that are not about the agent do not wait for it: the quickest of three counts on a busy machine."""
    taken = []
    for _ in range(3):
        begun = time.monotonic()
        assert pod.call("Pause", seconds=30).state == m.DOMAIN_STATE_PAUSED
        assert pod.call("Unpause", seconds=30).state == m.DOMAIN_STATE_RUNNING
        taken.append(time.monotonic() - begun)
    assert min(taken) < 4


def refused(pod: LauncherPod, method: str, request: Any = None) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as error:
        pod.call(method, request, seconds=50)
    return error.value.code(), error.value.details()


def memory_peak(pod: LauncherPod) -> int:
    return pod.launcher_memory("VmHWM")


# Written before it is asked for: an emulated guest takes seconds for it, and an agent is not waited for that long.
LONG = """(printf '{"return": ['; yes '{},' | head -n 352000 | tr -d '\\n'; echo '{}]}') >/run/long"""
ENDLESS = "tr '\\0' x </dev/zero"
TOO_LONG = "is longer than 1024 KiB"
# How often a guest that was too slow is asked once more.
TRIES = 6


def test_an_answer_that_is_longer_than_anybody_reads_is_told(pod: LauncherPod) -> None:
    before = pod.launcher_pid()
    in_guest(pod, LONG, seconds=60)
    for _ in range(TRIES):
        false_agent(pod, f"fake {shell_quoted('cat /run/long')}")
        others_do_not_wait(pod)
        if is_told(pod, TOO_LONG):
            break
        # Who was silent is asked less and less often; who comes anew, at once.
        no_agent(pod)
        wait_until(lambda: not connected(pod), "the agent is gone")
    else:
        pytest.fail("the trouble is not told")
    unhurt(pod, before)


def test_an_answer_without_end_is_not_read_for_ever(pod: LauncherPod) -> None:
    before = pod.launcher_pid()
    false_agent(pod, f"fake {shell_quoted(ENDLESS)}")
    others_do_not_wait(pod)
    # libvirt gives up at ten megabytes, we after some seconds: which comes first is the machine's speed.
    if not is_told(pod, "cannot be read"):
        assert refused(pod, "GetUsers") == (grpc.StatusCode.UNAVAILABLE, "the guest agent has not answered")
    unhurt(pod, before)


def unhurt(pod: LauncherPod, launcher: int) -> None:
    others_do_not_wait(pod)
    assert not told(pod).HasField("guest")
    assert pod.launcher_pid() == launcher
    assert memory_peak(pod) < MOST_MEMORY_KIB


def test_thousands_of_entries_and_control_characters_are_cut(pod: LauncherPod) -> None:
    user = r'{"user": "a\u001b[2Jb", "login-time": 5, "hardware-address": "02:00:00:00:00:99", "name": "x\u0007"}'
    answer = f"printf '%s' '{{\"return\": ['; yes '{user},' | head -n 3000 | tr -d '\\n'; echo '{user}]}}'"
    false_agent(pod, f"fake {shell_quoted(answer)}")
    trouble(pod, "entries, of which the rest is left out")
    found = wait_until(lambda: pod.call("GetUsers").users, "users", seconds=20)
    assert len(found) == MOST_USERS
    assert (found[0].name, found[0].login_unix_seconds) == ("a[2Jb", 5.0)
    assert all(entry.guest_name == "x" for entry in told(pod).addresses if entry.source == "guest-agent")
    assert told(pod).ByteSize() < 64 << 10
    others_do_not_wait(pod)


def test_an_answer_of_the_wrong_kind_says_nothing(pod: LauncherPod) -> None:
    wrong = '{"return": {"version": [], "supported_commands": {"a": 1}, "host-name": 7, "name": {}, "zone": []}}'
    false_agent(pod, f"fake {shell_quoted('echo ' + shell_quoted(wrong))}")
    info = wait_until(lambda: answered(pod), "an answer of sorts", seconds=20)
    assert (info.os_name, info.hostname, info.agent_version, info.timezone) == ("", "", "", "")
    wait_until(lambda: "guest-ping" in told(pod).agent_lacks, "it is known to lack everything")


def test_what_an_agent_says_when_it_refuses_is_cut(pod: LauncherPod) -> None:
    """It stands in the message that the user gets."""
    long = 'printf \'%s\' \'{"error": {"class": "GenericError", "desc": "\'; '
    long += "head -c 100000 /dev/zero | tr '\\0' x; echo '\"}}'"
    false_agent(pod, f"fake {shell_quoted(long)}")
    wait_until(lambda: connected(pod), "libvirt has seen the agent", seconds=20)
    code, words = refused(pod, "Freeze", m.FreezeRequest(unfreeze_seconds=5))
    assert code is grpc.StatusCode.INTERNAL
    assert LONGEST_TEXT < len(words) < 2000
    others_do_not_wait(pod)


def test_garbage_does_not_end_the_guest(pod: LauncherPod) -> None:
    for garbage in (
        "cat /dev/urandom >$(port)",
        # Some libvirts do not survive it; the next launcher finds the guest again.
        "exec 3<>$(port); (head -c 3000000 /dev/zero | tr '\\0' '['; echo) >&3; sleep 1000",
    ):
        false_agent(pod, garbage)
        wait_until(lambda: was_heard(pod), "libvirt has read of it", seconds=20)
        no_agent(pod)
        wait_until(lambda: answers(pod), "a launcher that answers", seconds=20)
        wait_until(lambda: not connected(pod), "the agent is gone")
    others_do_not_wait(pod)
    assert in_guest(pod, "echo here") == "here\n"


def test_a_silent_agent_keeps_no_guest_from_shutting_down(pod: LauncherPod) -> None:
    false_agent(pod, "exec 3<>$(port); sleep 1000")
    wait_until(lambda: connected(pod), "libvirt has seen the agent", seconds=20)
    others_do_not_wait(pod)
    assert refused(pod, "Freeze")[0] is grpc.StatusCode.UNAVAILABLE
    code, words = refused(pod, "GetUsers")
    assert (code, words) == (grpc.StatusCode.UNAVAILABLE, "the guest agent has not answered")
    assert not (pod.directory / "private" / pod.uid / "freeze.json").exists()
    pod.call("Shutdown", seconds=5)
    assert pod.wait_state(m.DOMAIN_STATE_SHUTOFF).reason == m.DOMAIN_REASON_SHUTDOWN


def answered(pod: LauncherPod) -> Any:
    try:
        return pod.call("GetGuestInfo")
    except grpc.RpcError:
        return None


def connected(pod: LauncherPod) -> bool:
    """Whether the launcher knows of an agent; who has just come is waited for, who is not there is not."""
    try:
        pod.call("GetUsers", seconds=2.0)
    except grpc.RpcError as error:
        return error.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
    return True


def was_heard(pod: LauncherPod) -> bool:
    """Whether the launcher knows of an agent, or has gone for what it said."""
    try:
        return connected(pod)
    except OSError:
        return True


def answers(pod: LauncherPod) -> bool:
    if pod.channel is not None:
        pod.channel.close()
        pod.channel = None
    try:
        return bool(told(pod).state == m.DOMAIN_STATE_RUNNING)
    except (grpc.RpcError, OSError):
        return False


def shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"

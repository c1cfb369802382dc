"""`kubectl exec` and `kubectl attach`, unmodified, into containers of one box."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.types.core import Capabilities, Container, Pod, PodSecurityContext, SecurityContext
from tests.machine.agent.box import Box, box, marks
from tests.machine.agent.containers import is_alive
from tests.support.kubectl import current_kubectl
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, busybox: Path) -> Iterator[Box]:
    with box(tmp_path_factory.mktemp("exec"), busybox, "10.243.18.0/24") as made:
        made.start_agent()
        yield made
        config = made.config
    assert marks(config) == []


@pytest.fixture(scope="module")
def pod(shared: Box) -> Pod:
    """One that runs as launchers do: user 107, no capabilities, system calls filtered."""
    container = Container(
        name="c",
        image="busybox",
        command=["sh", "-c", "echo hello; while :; do echo tick; sleep 0.2; done"],
        security_context=SecurityContext(
            run_as_user=107,
            run_as_group=107,
            allow_privilege_escalation=False,
            capabilities=Capabilities(drop=["ALL"]),
        ),
    )
    context = PodSecurityContext()
    made = shared.create("talks", "", containers=[container], security_context=context)
    return shared.in_phase(made.metadata.name, "Running")


def command(shared: Box, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
    program = current_kubectl()
    if program is None:
        pytest.skip("there is no kubectl in /usr/local/kubebuilder/bin or on the PATH")
    return [
        str(program),
        "--kubeconfig",
        str(kubeconfig or shared.kubeconfig),
        "--cache-dir",
        "/nonexistent",
        *arguments,
    ]


def run(
    shared: Box, *arguments: str, given: bytes = b"", kubeconfig: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command(shared, *arguments, kubeconfig=kubeconfig), input=given, capture_output=True, timeout=60, check=False
    )


def sh(shared: Box, script: str, *options: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run(shared, "exec", *options, "talks", "--", "sh", "-c", script, given=given)


def test_a_command_runs_with_what_its_container_has_and_no_more(shared: Box, pod: Pod) -> None:
    script = (
        'id; hostname; grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp:)" /proc/self/status; readlink /proc/self/ns/mnt'
    )
    done = sh(shared, script)
    assert (done.returncode, done.stderr) == (0, b"")
    *lines, namespace = done.stdout.decode().splitlines()
    assert lines[:2] == ["uid=107 gid=107 groups=107", "talks"]
    facts = dict(line.split(":\t") for line in lines[2:])
    assert {facts[name] for name in ("CapEff", "CapBnd")} == {"0" * 16}
    # The filter was asked for by nobody: who does not ask for all system calls has not all of them.
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    assert namespace == os.readlink(f"/proc/{shared.pid(pod)}/ns/mnt")


def test_output_errors_and_the_exit_code_come_apart(shared: Box, pod: Pod) -> None:
    done = sh(shared, "echo out; echo bad >&2; exit 7")
    assert done.stdout == b"out\n"
    assert done.stderr.splitlines() == [b"bad", b"command terminated with exit code 7"]
    assert done.returncode == 7


def test_a_command_that_is_killed_says_so(shared: Box, pod: Pod) -> None:
    assert sh(shared, "kill -9 $$").returncode == 137


def test_what_is_given_comes_through_whole_and_ends(shared: Box, pod: Pod) -> None:
    data = os.urandom(3 << 20)
    done = sh(shared, "cat", "-i", given=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_without_stdin_a_command_reads_the_end_at_once(shared: Box, pod: Pod) -> None:
    assert sh(shared, "cat; echo over").stdout == b"over\n"


def test_what_a_command_leaves_behind_does_not_keep_its_user_waiting(shared: Box, pod: Pod) -> None:
    began = time.monotonic()
    assert sh(shared, "sleep 50 & echo gone").stdout == b"gone\n"
    assert time.monotonic() - began < 40


def test_a_terminal_has_a_size_and_a_user_who_types(shared: Box, pod: Pod) -> None:
    pid, master = pty.fork()
    if pid == 0:
        arguments = command(shared, "exec", "-it", "talks", "--", "sh")
        os.execv(arguments[0], arguments)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
    os.kill(pid, signal.SIGWINCH)
    _until(master, b"$ ")
    os.write(master, b"tty; stty size; id -u; echo $TERM\n")
    _until(master, b"xterm\r\n")
    shown = b""
    for _ in range(50):
        os.write(master, b"stty size\n")
        shown = _until(master, b"$ ")
        if b"33 111" in shown:
            break
    assert b"33 111" in shown
    os.write(master, b"sleep 1000\n")
    time.sleep(0.5)
    # What the line discipline of the container's own terminal makes of Ctrl-C.
    os.write(master, b"\x03")
    _until(master, b"$ ")
    os.write(master, b"tty; exit 5\n")
    assert b"/dev/pts/" in _until(master, None)
    _, status = os.waitpid(pid, 0)
    os.close(master)
    assert os.waitstatus_to_exitcode(status) == 5


def _until(master: int, wanted: bytes | None, seconds: float = 30.0) -> bytes:
    """What a terminal shows up to some words, or to its end."""
    shown, deadline = b"", time.monotonic() + seconds
    while wanted is None or wanted not in shown:
        ready, _, _ = select.select([master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"not within {seconds} s: {shown!r}"
        try:
            part = os.read(master, 4096)
        except OSError:
            part = b""
        if not part:
            assert wanted is None, shown
            break
        shown += part
    return shown


def test_a_command_whose_user_goes_is_ended(shared: Box, pod: Pod) -> None:
    user = subprocess.Popen(
        command(shared, "exec", "talks", "--", "sh", "-c", "echo $$ >/tmp/pid; exec sleep 1234"), stdout=subprocess.PIPE
    )
    wait_until(lambda: sh(shared, "cat /tmp/pid").stdout.strip(), "it runs")
    found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if _is_sleep(path)]
    assert found
    user.kill()
    user.wait()
    assert user.stdout is not None
    user.stdout.close()
    wait_until(lambda: not any(is_alive(pid) for pid in found), "it is ended with its user")


def _is_sleep(path: Path) -> bool:
    try:
        return path.read_bytes() == b"sleep\x001234\x00"
    except OSError:
        return False


def test_nothing_is_left_of_sessions(shared: Box, pod: Pod) -> None:
    sh(shared, "true")
    sh(shared, "nonsense-that-is-not-there")
    left = [path.name for path in shared.files(pod).path.glob("containers/*session*")]
    assert left == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["exec", "talks", "--", "no-such-program"], "cannot run the command: No such file or directory"),
        (["exec", "nobody", "--", "true"], 'pods "nobody" not found'),
        (["exec", "talks", "-c", "other", "--", "true"], "container other"),
        (["attach", "talks", "-i"], "has no standard input"),
    ],
)
def test_what_cannot_be_is_explained(shared: Box, pod: Pod, arguments: list[str], words: str) -> None:
    done = run(shared, *arguments)
    assert done.returncode != 0
    assert words in done.stderr.decode()


def test_a_client_that_speaks_spdy_has_all_of_it(shared: Box, pod: Pod) -> None:
    """As kubectl before 1.31: output and errors apart, input with its end, how the command ended, a terminal."""
    environment = {**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}

    def run_there(*arguments: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        line = command(shared, "exec", *arguments)
        return subprocess.run(line, capture_output=True, timeout=60, check=False, env=environment, input=given)

    done = run_there("talks", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, b"out\n")
    assert done.stderr.startswith(b"err\n")
    large = bytes(range(256)) * 4096
    done = run_there("-i", "talks", "--", "cat", given=large)
    assert (done.returncode, done.stdout == large) == (0, True)
    done = run_there("talks", "--", "no-such-program")
    assert "cannot run the command: No such file or directory" in done.stderr.decode()
    shared.create("fades", "echo before; sleep 3; echo late; sleep 1; exit 0")
    shared.in_phase("fades", "Running")
    done = subprocess.run(
        command(shared, "attach", "fades"), capture_output=True, timeout=60, check=False, env=environment
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, b"late"), done.stderr


def test_a_pod_that_is_over_takes_no_commands(shared: Box) -> None:
    shared.create("over", "true")
    shared.in_phase("over", "Succeeded")
    done = run(shared, "exec", "over", "--", "true")
    assert "completed pod" in done.stderr.decode()


def test_attach_shows_what_comes_until_the_container_ends(shared: Box) -> None:
    shared.create("ends", "echo before; sleep 3; echo late; sleep 1; exit 0")
    shared.in_phase("ends", "Running")
    done = run(shared, "attach", "ends")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == b"late"


def test_virsh_in_a_launcher_of_an_older_kvedge_is_told_whom_to_ask_instead(shared: Box) -> None:
    container = Container(name="compute", image="busybox", command=["sleep", "1000"])
    shared.create("virt-launcher-vm-abcde", "", containers=[container])
    shared.in_phase("virt-launcher-vm-abcde", "Running")
    done = run(shared, "exec", "virt-launcher-vm-abcde", "--", "virsh", "list")
    assert done.returncode == 1
    assert "kubectl get vmi" in done.stderr.decode()
    assert "virtctl" in done.stderr.decode()


def test_who_may_only_look_runs_nothing(shared: Box, pod: Pod) -> None:
    """A websocket begins with a GET: the right to get alone does not open it."""
    viewer = shared.kubeconfig_of("viewer")
    for verb in ("get", "get,create"):
        rule = ["role", "exec", f"--verb={verb}", "--resource=pods/exec", "--dry-run=client", "-o", "yaml"]
        made = run(shared, "create", *rule).stdout
        assert run(shared, "apply", "-f", "-", given=made).returncode == 0
        run(shared, "create", "rolebinding", "exec", "--role=exec", "--user=viewer")
        look = ["create", "role", "look", "--verb=get", "--resource=pods"]
        run(shared, *look)
        run(shared, "create", "rolebinding", "look", "--role=look", "--user=viewer")
        done = run(shared, "exec", "talks", "--", "true", kubeconfig=viewer)
        assert (done.returncode == 0) == ("create" in verb), done.stderr
        if verb == "get":
            assert "cannot create resource" in done.stderr.decode()

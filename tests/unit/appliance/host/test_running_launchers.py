"""Which launchers keep a host from being uninstalled or from another role: its own, and not those of other boxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.appliance.host.running_launchers import running_launchers

DATA = Path("/srv/kv")
TREE = f"data/{'a' * 64}/kvedge"
OURS = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"
OTHER = OURS.replace("0d2b", "1d2b")
NO_POD = "0::/init.scope\n"
BOX = "0::/kvedge.slice/kvedge-kve_0a1b2c.slice/kvedge-pod-{}.scope\n"
CLUSTER = "0::/kubepods/burstable/pod{}/0123\n"
VM = ("launcher", "--monitor", "--namespace", "shop", "--name", "web")


@pytest.fixture
def kubelet(tmp_path: Path) -> Path:
    (tmp_path / "kubelet/pods" / OURS).mkdir(parents=True)
    return tmp_path / "kubelet"


@pytest.mark.parametrize(
    ("words", "cgroup", "is_found"),
    [
        pytest.param([f"/srv/kv/{TREE}", *VM], BOX.format(OTHER), True, id="from the data directory's tree"),
        pytest.param(["/srv/kv/launcher/kvedge", *VM], CLUSTER.format(OTHER), True, id="from its link"),
        pytest.param(["python", "-P", "-m", "/srv/kv/data/x", *VM], NO_POD, True, id="with an interpreter before it"),
        pytest.param([f"/var/lib/kvedge/{TREE}", *VM], BOX.format(OURS), True, id="unpacked elsewhere, of this box"),
        pytest.param([f"/var/lib/kvedge/{TREE}", *VM], BOX.format(OTHER), False, id="of another box"),
        pytest.param([f"/var/lib/kvedge/{TREE}", *VM], NO_POD, True, id="of nobody who can be told"),
        pytest.param(["/var/lib/kvedge/launcher/kvedge", *VM], CLUSTER.format(OURS), True, id="in this kubelet's Pod"),
        pytest.param([f"/var/lib/kvedge/{TREE}", "launcher", "--probe", "/x"], NO_POD, False, id="without a VM"),
        pytest.param(["/srv/kv/launcher/kvedge", "node"], NO_POD, False, id="no launcher"),
        pytest.param(["/srv/other/data/x/kvedge", *VM], NO_POD, False, id="no tree of kvedge's"),
        pytest.param(["/sbin/init"], NO_POD, False, id="somebody's"),
    ],
)
def test_launchers_are_told_by_what_they_run_from_and_whose_pods_they_are_in(
    tmp_path: Path, kubelet: Path, words: list[str], cgroup: str, is_found: bool
) -> None:
    process = tmp_path / "proc/7"
    process.mkdir(parents=True)
    (process / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    (process / "cgroup").write_text(cgroup)
    # Of processes that have just ended, and no process at all.
    (tmp_path / "proc/10").mkdir()
    (tmp_path / "proc/self").mkdir()
    assert running_launchers(DATA, kubelet, tmp_path / "proc") == (["shop/web"] if is_found else [])

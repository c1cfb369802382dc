"""A kubelet's Pods are not ours, wherever an agent or a removal is sent: nothing of them or through them goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.agent_removal import RemovalError, remove_everything
from kvedge.standalone.agent.agent_service import AgentConfig
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.pod_record import new_record, write_pod_record

KUBELETS = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"
HALF_MADE = "1d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"


@pytest.fixture
def mounts() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=["a directory", "a link"])
def config(tmp_path: Path, request: pytest.FixtureRequest) -> AgentConfig:
    (tmp_path / "real").mkdir()
    data = tmp_path / "real"
    if request.param == "a link":
        data = tmp_path / "data"
        data.symlink_to(tmp_path / "real")
    made = AgentConfig(node="n", data_dir=data, kubelet=data / "kubelet", pod_cidr="10.243.19.0/24")
    (made.pods / HALF_MADE / "volumes").mkdir(parents=True)
    return made


def bind(source: Path, target: Path, mounts: ExitStack) -> None:
    """On the same file system, as most of a kubelet's are: its device number tells nothing."""
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", source, target], check=True)
    mounts.callback(subprocess.run, ["umount", target], check=True)


@pytest.fixture
def database(config: AgentConfig, tmp_path: Path, mounts: ExitStack) -> Path:
    """A file on a persistent volume, of which a kubelet has bound a part into its Pod; no more tells whose that is."""
    bind(tmp_path / "pv", config.pods / KUBELETS / "containers/c.root", mounts)
    (tmp_path / "pv/database").write_text("precious")
    return tmp_path / "pv/database"


def test_removing_everything_leaves_what_may_be_a_kubelets_and_says_so(config: AgentConfig, database: Path) -> None:
    with pytest.raises(RemovalError, match=f"{KUBELETS} has no record of kvedge's and is left as it is"):
        remove_everything(config, 0)
    assert database.read_text() == "precious"
    assert not (config.pods / HALF_MADE).exists()


def test_an_agent_that_starts_there_leaves_it(config: AgentConfig, database: Path) -> None:
    assert LocalPods(config.pods).adopt() == []
    assert database.read_text() == "precious"
    assert [path.name for path in config.pods.iterdir()] == [KUBELETS]


def test_something_that_is_mounted_into_a_pod_of_ours_is_not_removed_with_it(
    config: AgentConfig, tmp_path: Path, mounts: ExitStack
) -> None:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid=KUBELETS))
    files = PodFiles(config.pods / KUBELETS)
    write_pod_record(files, new_record(pod))
    bind(tmp_path / "site", files.path / "logs", mounts)
    (tmp_path / "site/log").write_text("precious")
    with pytest.raises(RemovalError, match="something is mounted there"):
        remove_everything(config, 0)
    assert ((tmp_path / "site/log").read_text(), files.record.exists()) == ("precious", True)


def test_a_volume_that_is_mounted_is_unmounted_and_not_emptied(config: AgentConfig, tmp_path: Path) -> None:
    files = PodFiles(config.pods / KUBELETS)
    write_pod_record(files, new_record(Pod(metadata=ObjectMeta(name="p", namespace="ns", uid=KUBELETS))))
    with ExitStack() as unused:
        bind(tmp_path / "site", files.volume("empty-dir", "v"), unused)
        unused.pop_all()
    (tmp_path / "site/file").write_text("precious")
    remove_everything(config, 0)
    assert ((tmp_path / "site/file").read_text(), files.path.exists()) == ("precious", False)

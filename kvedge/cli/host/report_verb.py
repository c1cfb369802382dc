"""`kvedge report`: one file from which somebody else can find out what is wrong, with secrets removed.

Called by the group. Looks at the host, the object store or the API, and logs; writes one file. The report notes each
source that cannot be read: a report is made when things do not work.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kvedge.appliance.install.installed import health_here, role_here
from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.runtime.settings import LoadedSettings, trace_settings

if TYPE_CHECKING:
    from kvedge.appliance.report.report_file import ReportFile
    from kvedge.appliance.report.report_redaction import Redaction
    from kvedge.kube.kube_client import KubeClient
    from kvedge.resources.codec import JsonObject
    from kvedge.resources.kinds import Kind

# Large, and the same everywhere.
_LEFT_OUT: Final = ("customresourcedefinitions.apiextensions.k8s.io",)
_MOST_OF_A_KIND: Final = 2000
# Of a cluster's objects those that decide what becomes of a VM; beside all kinds of KubeVirt's and CDI's. Nothing of
# anybody's own configuration is among them.
_OF_A_CLUSTER: Final = frozenset(
    {
        "endpointslices.discovery.k8s.io",
        "events",
        "network-attachment-definitions.k8s.cni.cncf.io",
        "networkpolicies.networking.k8s.io",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "services",
        "storageclasses.storage.k8s.io",
    }
)
_GROUPS: Final = frozenset({"kubevirt.io", "cdi.kubevirt.io"})


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@CONFIG
@click.option("--data-dir", default=None, help="The data directory of the box [/var/lib/kvedge].")
def report(file: Path | None, config: Path | None, data_dir: str | None) -> None:
    """Collect findings, settings, objects and logs into one file for support, with secrets removed."""
    if os.geteuid() != 0:
        raise Refused("kvedge report needs root: logs and settings are not for everybody", Exit.HOST)
    loaded = trace_settings(config_path(config), os.environ, {"data_dir": data_dir})
    from kvedge.appliance.report.report_file import ReportFile
    from kvedge.appliance.report.report_redaction import Redaction

    moment = datetime.now(UTC)
    path = file or Path(f"kvedge-report-{loaded.settings.effective_node_name}-{moment:%Y%m%dT%H%M%SZ}.tar.gz")
    redaction = Redaction()
    try:
        with ReportFile(path, redaction) as archive:
            _Collector(archive, redaction, loaded).collect()
            notes = len(archive.notes)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror or error}") from error
    click.echo(f"wrote {path}" + (f"; {notes} things could not be read, see its notes.txt" if notes else ""))
    click.echo("secrets are removed as far as they can be told; look through it before you hand it on")


def is_told(kind: Kind) -> bool:
    """Whether a cluster's objects of that kind go into a report."""
    return kind.group in _GROUPS or kind.qualified_plural in _OF_A_CLUSTER


class _Collector:
    """Puts one thing after the other into a report."""

    def __init__(self, archive: ReportFile, redaction: Redaction, loaded: LoadedSettings) -> None:
        self._archive = archive
        self._redaction = redaction
        self._loaded = loaded
        self._settings = loaded.settings

    def collect(self) -> None:
        """Objects first: their secrets are removed from all that follows."""
        from kvedge.appliance.report import report_sources

        self._try("objects", self._collect_objects)
        rows = "".join(f"{key} = {value}   # {origin}\n" for key, value, origin in self._loaded.rows())
        self._archive.add("settings.txt", rows)
        instance = self._instance()
        texts: dict[str, Callable[[], str]] = {
            "doctor.json": self._doctor,
            "status.json": self._status,
            "versions.txt": report_sources.versions,
            "state.txt": self._state,
            "host/networks.txt": lambda: report_sources.networks(instance),
            "host/mounts.txt": lambda: report_sources.mounts(self._settings.data_path),
            "host/cgroups.txt": lambda: report_sources.describe_cgroups(instance),
            "host/processes.txt": report_sources.processes,
            "host/data-directory.txt": self._data_directory,
        }
        for name, make in texts.items():
            self._try(name, lambda name=name, make=make: self._archive.add(name, make()))  # type: ignore[misc]
        self._try("journal", self._collect_journals)
        self._try("logs of Pods", self._collect_pod_logs)

    def _try(self, what: str, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever is broken here, the rest is wanted all the more
            self._archive.notes.append(f"{what}: {type(error).__name__}: {self._redaction.clean_text(str(error))}")

    def _collect_objects(self) -> None:
        import yaml

        by_kind: dict[str, list[JsonObject]] = {}
        for resource, document in self._documents():
            if resource not in _LEFT_OUT:
                by_kind.setdefault(resource, []).append(self._redaction.document(document))
        for resource, documents in sorted(by_kind.items()):
            if len(documents) > _MOST_OF_A_KIND:
                self._archive.notes.append(f"{resource}: the last {_MOST_OF_A_KIND} of {len(documents)}")
            cleaned = [self._redaction.scrub(document) for document in documents[-_MOST_OF_A_KIND:]]
            text = yaml.safe_dump_all(cleaned, sort_keys=False, allow_unicode=True, width=1 << 20)
            self._archive.add(f"objects/{resource}.yaml", text)

    def _documents(self) -> Iterator[tuple[str, JsonObject]]:
        """(resource, object), from the store of one box, else from the API."""
        store = self._settings.state_path / "kvedge.db"
        if store.exists():
            from kvedge.standalone.apiserver.store.object_store_snapshot import read_objects

            for stored in read_objects(store):
                yield stored.key.resource, stored.load()
            return
        yield from self._documents_of_cluster()

    def _documents_of_cluster(self) -> Iterator[tuple[str, JsonObject]]:
        """As far as this host's credentials go: those of an administrator see all, a node's its own VMs."""
        from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig, health_source
        from kvedge.client.discovery import list_served_kinds
        from kvedge.kube.kube_client import KubeClient

        settings = self._settings
        kubeconfig = administrator_kubeconfig(settings) or health_source(settings, role_here(settings))[0]
        client = KubeClient.from_kubeconfig(kubeconfig).hurry(20.0)
        for kind in (served.kind for served in list_served_kinds(client)):
            if is_told(kind):
                for item in self._list(client, kind):
                    yield kind.qualified_plural, {"apiVersion": kind.api_version, "kind": kind.kind, **item}

    def _list(self, client: KubeClient, kind: Kind) -> list[JsonObject]:
        """Objects of a kind. A kind that may not be read, or comes too slowly, becomes a note and costs no other."""
        found: list[JsonObject] = []

        def read() -> None:
            found.extend(client.request("GET", kind.path(), query={"limit": str(_MOST_OF_A_KIND)})["items"])

        self._try(kind.qualified_plural, read)
        return found

    def _doctor(self) -> str:
        from kvedge.appliance.doctor.doctor_rules import examine
        from kvedge.appliance.doctor.findings import DoctorOptions
        from kvedge.appliance.doctor.host_reader import read_host

        settings = self._settings
        options = DoctorOptions.of(settings)
        findings = examine(read_host(options, self._instance(), try_guest=False), options)
        documents = [
            {"check": found.check, "level": str(found.level), "detail": found.detail, "remedy": found.remedy}
            for found in findings
        ]
        return _json(documents)

    def _status(self) -> str:
        role = role_here(self._settings)
        health = health_here(self._settings, role)
        return _json({"role": role, "nodes": health.nodes, "vms": dict(health.phases), "problems": health.problems})

    def _state(self) -> str:
        from kvedge.standalone.box_state.state_check import check_state

        return "".join(
            f"{checked.what}: {checked.problem or checked.detail or 'ok'}\n"
            for checked in check_state(self._settings.data_path)
        )

    def _data_directory(self) -> str:
        """Names, modes and sizes of what lies there, some levels deep; no content."""
        root = self._settings.data_path
        lines = []
        for depth in range(1, 4):
            for path in sorted(root.glob("/".join(["*"] * depth)))[:_MOST_OF_A_KIND]:
                facts = path.lstat()
                lines.append(f"{facts.st_mode:o} {facts.st_uid}:{facts.st_gid} {facts.st_size:>12} {path}")
        return "\n".join(lines)

    def _collect_journals(self) -> None:
        from kvedge.appliance.host.systemctl_client import systemd_runs
        from kvedge.appliance.report.report_sources import journals

        if systemd_runs():
            for unit, text in journals():
                self._archive.add(f"journal/{unit}.txt", text)

    def _collect_pod_logs(self) -> None:
        from kvedge.appliance.report.report_sources import pod_logs

        for name, text in pod_logs(self._settings.box_kubelet_path / "pods"):
            self._archive.add(f"pods/{name}", text)

    def _instance(self) -> str:
        from kvedge.standalone.agent.agent_service import AgentConfig

        settings = self._settings
        return AgentConfig(settings.effective_node_name, settings.data_path, settings.box_kubelet_path).instance


def _json(document: object) -> str:
    import json

    return json.dumps(document, indent=2)

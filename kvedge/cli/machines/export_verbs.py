"""`kvedge vmexport create|download|delete`: virtctl's verbs, and `kvedge export` is the one that makes a VM's file.

Called by the group. Prints what virtctl prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.sessions import open_session, session_options
from kvedge.cli.tidy_end import tidy_end
from kvedge.cli.verb_command import VerbGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvedge.client.exports.export_download import Way
    from kvedge.client.session import Session

_GROUPS: Final = {"pvc": "", "vm": "kubevirt.io", "snapshot": "snapshot.kubevirt.io"}
_KINDS: Final = {"pvc": "PersistentVolumeClaim", "vm": "VirtualMachine", "snapshot": "VirtualMachineSnapshot"}
_CLAIM_SECONDS: Final = 120.0
_NO_PORT_FORWARD: Final = (
    "--port-forward: on one box it is not needed, exports are served where the API is; in a cluster `kubectl "
    "port-forward service/virt-export-NAME 8443:443` and --service-url 127.0.0.1:8443 --insecure do the same"
)


@click.group("vmexport", cls=VerbGroup)
def vmexport() -> None:
    """Exports of disks as objects, as virtctl has them; `kvedge export` writes a VM into one file."""


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Of what an export is made."""
    command = click.option("--ttl", default="", help="After how long it ends by itself, as 4h.")(command)
    command = click.option("--snapshot", default="", metavar="NAME", help="Of this snapshot.")(command)
    command = click.option("--pvc", default="", metavar="NAME", help="Of this claim.")(command)
    return click.option("--vm", default="", metavar="NAME", help="Of this VM, which must be stopped.")(command)


@vmexport.command()
@click.argument("name")
@session_options
@source_options
def create(
    name: str, kubeconfig: Path | None, namespace: str | None, vm: str, pvc: str, snapshot: str, ttl: str
) -> None:
    """Make an export: of a VM, a snapshot or a claim."""
    from kvedge.client.exports.export_calls import ExportCalls

    source = _source(vm, pvc, snapshot)
    if source is None:
        raise Refused("need to specify export kind: one of --vm, --snapshot, --pvc", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    ExportCalls(session).make(name, source, f"secret-{name}", ttl)
    click.echo(f"VirtualMachineExport '{session.namespace}/{name}' created successfully")


@vmexport.command()
@click.argument("name")
@session_options
def delete(name: str, kubeconfig: Path | None, namespace: str | None) -> None:
    """Remove an export."""
    from kvedge.client.exports.export_calls import ExportCalls

    session = open_session(kubeconfig, namespace)
    words = "deleted successfully" if ExportCalls(session).remove(name) else "does not exist"
    click.echo(f"VirtualMachineExport '{session.namespace}/{name}' {words}")


@vmexport.command()
@click.argument("name")
@session_options
@source_options
@click.option("--output", default="", metavar="FILE", help="The new file; - is standard output.")
@click.option("--volume", default="", help="Which of its volumes, when there are several.")
@click.option(
    "--format", "format_", type=click.Choice(["gzip", "raw"]), default="gzip", show_default=True, help="Of a disk."
)
@click.option("--keep-vme", is_flag=True, help="Keep an export that this call has made.")
@click.option("--delete-vme", is_flag=True, help="Delete the export afterwards, also one that was there before.")
@click.option("--insecure", is_flag=True, help="Trust any certificate of the export's server.")
@click.option("--service-url", default="", metavar="HOST:PORT", help="Where the export's Service is reached.")
@click.option("--port-forward", is_flag=True, hidden=True)
@click.option("--retry", type=click.IntRange(0, 100), default=2, show_default=True, help="How often it begins again.")
@click.option("--readiness-timeout", type=click.FloatRange(min=1), default=120.0, show_default=True, help="In seconds.")
@click.option("--manifest", is_flag=True, help="The VM and its DataVolumes as documents, instead of a volume.")
@click.option("--include-secret", is_flag=True, help="With --manifest: the Secret that imports need, too.")
@click.option("--manifest-output-format", type=click.Choice(["json", "yaml"]), default="yaml", show_default=True)
def download(
    name: str,
    kubeconfig: Path | None,
    namespace: str | None,
    vm: str,
    pvc: str,
    snapshot: str,
    ttl: str,
    output: str,
    volume: str,
    format_: str,
    keep_vme: bool,
    delete_vme: bool,
    insecure: bool,
    service_url: str,
    port_forward: bool,
    retry: int,
    readiness_timeout: float,
    manifest: bool,
    include_secret: bool,
    manifest_output_format: str,
) -> None:
    """Save a disk of an export, or its manifests; makes the export when a source is named.

    \b
    kvedge vmexport download web-disk --vm web --volume web-root --format raw --output web.img
    kvedge vmexport download web-docs --vm web --manifest --include-secret > web.yaml

    An export that this call makes goes afterwards, one that was there stays.
    """
    from kvedge.client.exports.export_download import Way

    if port_forward:
        raise Refused(_NO_PORT_FORWARD, Exit.USAGE)
    if keep_vme and delete_vme:
        raise Refused("the '--keep-vme' flag is incompatible with '--delete-vme'", Exit.USAGE)
    if include_secret and not manifest:
        raise Refused("--include-secret: goes with --manifest alone", Exit.USAGE)
    if manifest and (volume or format_ == "raw"):
        raise Refused("--manifest: takes neither --volume nor --format", Exit.USAGE)
    if not output and not manifest:
        raise Refused("--output: name the new file, or - for standard output", Exit.USAGE)
    if output in ("", "-") and not manifest and sys.stdout.isatty():
        raise Refused("--output -: the terminal takes no binary output: lead it into a file or a pipe", Exit.USAGE)
    if output == "-" and format_ == "raw":
        raise Refused("--format raw: a disk with its holes needs a file: name one in --output", Exit.USAGE)
    session = open_session(kubeconfig, namespace)
    saving = _Saving(session, name, Way(service_url, insecure, retry + 1), readiness_timeout, output)
    with tidy_end():
        made = saving.make(_source(vm, pvc, snapshot), ttl)
        try:
            if manifest:
                saving.save_manifests(manifest_output_format, secret=include_secret)
            else:
                saving.save_volume(volume, format_)
        finally:
            if delete_vme or (made and not keep_vme):
                saving.remove()
    if output not in ("", "-"):
        click.echo("Download finished successfully")


def save_claim(session: Session, name: str, claim: str, way: Way, output: Path, *, port_forward: bool) -> None:
    """Save the files of a claim, by an export that is made for it and goes afterwards; one that is there stays."""
    if port_forward:
        raise Refused(_NO_PORT_FORWARD, Exit.USAGE)
    saving = _Saving(session, name, way, _CLAIM_SECONDS, str(output))
    with tidy_end():
        made = saving.make(_source("", claim, ""), "")
        try:
            saving.save_volume("", "gzip")
        finally:
            if made:
                saving.remove()


class _Saving:
    """One download of one export."""

    def __init__(self, session: Session, name: str, way: Way, seconds: float, output: str) -> None:
        from kvedge.cli.upload_bar import UploadBar
        from kvedge.client.exports.export_calls import ExportCalls
        from kvedge.client.exports.new_file import check_free

        self._session, self._name, self._way, self._seconds, self._output = session, name, way, seconds, output
        self._calls = ExportCalls(session)
        self._token = ""
        self._bar = UploadBar()
        if output not in ("", "-"):
            check_free(Path(output))

    def make(self, source: dict[str, str] | None, ttl: str) -> bool:
        """Make the export unless it is there; whether it was made."""
        if self._calls.find(self._name) is not None:
            return False
        if source is None:
            raise Refused(
                f"VirtualMachineExport '{self._session.namespace}/{self._name}' does not exist: --vm, --snapshot or "
                "--pvc makes it",
                Exit.NOT_FOUND,
            )
        _, self._token = self._calls.make(self._name, source, f"secret-{self._name}", ttl)
        return True

    def remove(self) -> None:
        """The export goes."""
        self._calls.remove(self._name)

    def save_volume(self, volume: str, form: str) -> None:
        """One volume, into the output."""
        from kvedge.client.exports.export_download import RAW, choose_url
        from kvedge.client.exports.new_file import write_file

        link, download = self._open()
        found, url = choose_url(link, volume, form)
        try:
            if self._output == "-":
                download.fetch_stream(url, sys.stdout.buffer, lambda done, total: None, seekable=False)
                sys.stdout.buffer.flush()
                return
            with write_file(Path(self._output)) as file:
                if found == RAW:
                    download.fetch_raw(url, file, self._bar.show)
                else:
                    download.fetch_stream(url, file, self._bar.show)
        finally:
            self._bar.end()

    def save_manifests(self, form: str, *, secret: bool) -> None:
        """The documents, onto the output."""
        from kvedge.client.exports.new_file import write_file

        link, download = self._open()
        urls = {str(each.get("type")): str(each.get("url")) for each in link.get("manifests") or ()}
        wanted = ["all", "auth-header-secret"] if secret else ["all"]
        if missing := [each for each in wanted if each not in urls]:
            raise Refused(f"the export has no manifests ({missing[0]}): those of claims have none", Exit.FAILED)
        parts = [download.fetch_manifest(urls[each], f"application/{form}") for each in wanted]
        content = b"\n---\n".join(parts) if form == "yaml" else b"\n".join(parts)
        if self._output in ("", "-"):
            click.echo(content)
            return
        with write_file(Path(self._output)) as file:
            file.write(content)

    def _open(self) -> Any:
        from kvedge.cli.progress import Progress
        from kvedge.client.exports.export_download import ExportDownload, choose_link

        where = f"VirtualMachineExport {self._name}"
        ready = self._calls.wait(self._name, self._seconds, Progress, where, lambda links: bool(links))
        link = choose_link(ready["status"]["links"], self._way)
        return link, ExportDownload(link, self._token or self._calls.read_token(ready), self._way)


def _source(vm: str, pvc: str, snapshot: str) -> dict[str, str] | None:
    named = {key: value for key, value in (("vm", vm), ("pvc", pvc), ("snapshot", snapshot)) if value}
    if len(named) > 1:
        raise Refused(f"{' and '.join(f'--{key}' for key in named)}: an export has one source", Exit.USAGE)
    for key, value in named.items():
        return {"apiGroup": _GROUPS[key], "kind": _KINDS[key], "name": value}
    return None

"""`kvedge doctor`: whether this host can run VMs, and what to do where it cannot.

Called by the group. Reads the host, may boot a firmware on KVM for a moment; prints and exits with 0, or with 5 when
something keeps VMs from running.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvedge.cli.config_option import CONFIG, config_path
from kvedge.cli.exits import Exit, Refused
from kvedge.runtime.settings import load_settings

if TYPE_CHECKING:
    from kvedge.appliance.doctor.findings import Finding

_COLOURS = {"ok": "green", "info": "cyan", "warn": "yellow", "fail": "red"}


@click.command()
@CONFIG
@click.option("--data-dir", help="The instance that is asked about.")
@click.option("--no-guest", is_flag=True, help="Do not boot a firmware on KVM to see whether it works.")
@click.option("--strict", is_flag=True, help="Warnings count as failures.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="The format [table].")
def doctor(config: Path | None, data_dir: str | None, no_guest: bool, strict: bool, output: str) -> None:
    """Check whether this host can run VMs; each finding comes with its remedy."""
    settings = load_settings(config_path(config), os.environ, {"data_dir": data_dir})
    from kvedge.appliance.doctor.doctor_rules import examine
    from kvedge.appliance.doctor.findings import DoctorOptions, Level, worst
    from kvedge.appliance.doctor.host_reader import read_host
    from kvedge.standalone.agent.agent_service import AgentConfig

    options = DoctorOptions.of(settings)
    bridge = AgentConfig(settings.effective_node_name, settings.data_path, settings.box_kubelet_path).instance
    findings = examine(read_host(options, bridge, try_guest=not no_guest), options)
    if output == "json":
        import json

        click.echo(json.dumps([_document(finding) for finding in findings], indent=2))
    else:
        _print_report(findings)
    gravest = worst(findings)
    if gravest == Level.FAIL or (strict and gravest == Level.WARN):
        bad = [
            finding.check for finding in findings if finding.level in (Level.FAIL, Level.WARN if strict else Level.FAIL)
        ]
        raise Refused(f"this host is not fit: {', '.join(bad)}", Exit.HOST)


def _document(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "level": str(finding.level),
        "detail": finding.detail,
        "remedy": finding.remedy,
    }


def _print_report(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = click.style(f"{finding.level:4}", fg=_COLOURS[finding.level])
        click.echo(f"{level}  {finding.check:{width}}  {finding.detail}")
        if finding.remedy:
            click.echo(f"{'':4}  {'':{width}}  → {finding.remedy}")

"""The document of metrics, as vm-dump-metrics reads it."""

from __future__ import annotations

from xml.etree import ElementTree

from kvedge.launcher.metrics.metric_xml import UNKNOWN, Metric, make_seconds, make_size, render_metrics


def test_metrics_are_written_as_kubevirt_writes_them() -> None:
    text = render_metrics(
        (
            Metric("host", "HostName", "string", "node<1>"),
            make_seconds("vm", "TotalCPUTime", 1.5),
            make_size("host", "FreePhysicalMemory", 7),
        )
    )
    assert text == (
        "<metrics>\n"
        '  <metric type="string" context="host">\n'
        "    <name>HostName</name>\n"
        "    <value><![CDATA[node<1>]]></value>\n"
        "  </metric>\n"
        '  <metric type="real64" context="vm" unit="s">\n'
        "    <name>TotalCPUTime</name>\n"
        "    <value><![CDATA[1.500000]]></value>\n"
        "  </metric>\n"
        '  <metric type="uint64" context="host" unit="KiB">\n'
        "    <name>FreePhysicalMemory</name>\n"
        "    <value><![CDATA[7]]></value>\n"
        "  </metric>\n"
        "</metrics>\n"
    )


def test_what_is_told_while_nothing_is_known_is_a_document_too() -> None:
    assert ElementTree.fromstring(UNKNOWN).tag == "metrics"

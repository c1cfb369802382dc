"""Settings: which source wins, and what a mistake is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kvedge
from kvedge.runtime.settings import Settings, SettingsError, load_settings, setting_facts, trace_settings


def load(tmp_path: Path, text: str = "", environment: dict[str, str] | None = None, **overrides: object) -> Settings:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    return load_settings(config, environment or {}, overrides)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    text = "port: 1\nbind: 127.0.0.1\nlog-level: debug\n"
    found = load(tmp_path, text, {"KVEDGE_PORT": "2", "KVEDGE_BIND": "127.0.0.2"}, port=3)
    assert (found.port, found.bind, found.log_level) == (3, "127.0.0.2", "debug")


def test_an_option_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "port: 7\n", port=None).port == 7


def test_files_in_the_directory_beside_the_default_file_are_read_in_order(tmp_path: Path) -> None:
    default = tmp_path / "config.yaml"
    default.write_text("port: 1\npod-cidr: 10.1.0.0/24\n")
    (tmp_path / "config.yaml.d").mkdir()
    (tmp_path / "config.yaml.d" / "20-b.yaml").write_text("port: 3\n")
    (tmp_path / "config.yaml.d" / "10-a.yaml").write_text("port: 2\n")
    found = load_settings(None, {}, {}, default)
    assert (found.port, found.pod_cidr) == (3, "10.1.0.0/24")


def test_a_default_file_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert load_settings(None, {}, {}, tmp_path / "none.yaml") == Settings()


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        pytest.param("prot: 1\n", {}, "unknown setting prot: did you mean port?", id="a typo in the file"),
        pytest.param("", {"KVEDGE_EMULATOIN": "tcg"}, "KVEDGE_EMULATOIN: unknown setting", id="a typo in a variable"),
        pytest.param("port: many\n", {}, "port", id="a word where a number belongs"),
        pytest.param("port: 70000\n", {}, "port: 70000 is not between", id="a port out of range"),
        pytest.param("emulation: fast\n", {}, "emulation", id="an accelerator that does not exist"),
        pytest.param(
            "volume-places: fast=lvm:ssd/thin\n", {}, "a thin pool is named by .* fast=lvm-thin:GROUP/POOL", id="LVM"
        ),
        pytest.param(
            "volume-places: fast=lvm-thin:ssd/a,slow=lvm-thin:ssd/a\n", {}, "is a place already", id="a pool twice"
        ),
        pytest.param("data-dir: here\n", {}, "data-dir: here must be an absolute path", id="a relative directory"),
        pytest.param("bind: localhost\n", {}, "bind: localhost is not an IP address", id="a name to bind to"),
        pytest.param("pod-cidr: 10.0.0.1/24\n", {}, "pod-cidr: 10.0.0.1/24 is not an IPv4 network", id="host bits set"),
        pytest.param("pod-cidr: 10.0.0.0/30\n", {}, "room for too few VMs", id="a tiny network"),
        pytest.param("pod-cidr: 10.0.0.0/24,\n", {}, "pod-cidr: 10.0.0.0/24, is not", id="half a pair"),
        pytest.param("pod-cidr: fd00::/64\n", {}, "pod-cidr: fd00::/64 is not an IPv4 network", id="IPv6 alone"),
        pytest.param("pod-cidr: 10.0.0.0/16,fd00::/113\n", {}, "a prefix of 48 to 112", id="no IPv6 for each VM"),
        pytest.param("pod-cidr: 10.0.0.0/16,fe80::/64\n", {}, "fe80::/64 is no network for VMs", id="a link's own"),
        pytest.param("service-cidr: 10.7.0.0/16,fd01::/112\n", {}, "fd01::/112 leads nowhere", id="no IPv6 Pods"),
        pytest.param(
            "pod-cidr: 10.1.0.0/24,fd01::/64\nservice-cidr: 10.7.0.0/16,fd01::/112\n",
            {},
            "service-cidr: fd01::/112 overlaps with pod-cidr fd01::/64",
            id="one IPv6 range for both",
        ),
        pytest.param(
            "pod-cidr: 10.1.0.0/24,fd01::/64\nservice-cidr: 10.7.0.0/16,fd02::/64\n",
            {},
            "fd02::/64 has the wrong size: use a prefix of 108 to 125",
            id="more Services than can be counted",
        ),
        pytest.param("load-balancer-pool: many\n", {}, "many is no list of addresses", id="a pool of nothing"),
        pytest.param(
            "load-balancer-pool: 10.99.0.200-10.99.1.5\n",
            {},
            "load-balancer-pool: 10.99.0.200-10.99.1.5 overlaps with pod-cidr 10.99.0.0/24: give addresses of the LAN",
            id="a pool with VMs' addresses",
        ),
        pytest.param(
            "load-balancer-pool: 192.0.2.9,10.100.5.0/24\n", {}, "overlaps with service-cidr", id="Services' addresses"
        ),
        pytest.param(
            "load-balancer-pool: 2001:db8::9\n", {}, "2001:db8::9 leads nowhere", id="an IPv6 pool without IPv6"
        ),
        pytest.param(
            "node-roles: api,handlr\n", {}, "node-roles: handlr is not a role: did you mean handler?", id="a role"
        ),
        pytest.param("node-roles: launcher9\n", {}, "known are api, controller, handler", id="a role like no other"),
        pytest.param("node-roles: ','\n", {}, "node-roles: names no role", id="no role"),
        pytest.param("- a\n- b\n", {}, "must hold settings", id="a list"),
        pytest.param("a: [\n", {}, "is not YAML", id="no YAML"),
    ],
)
def test_a_mistake_is_refused_with_its_place(
    tmp_path: Path, text: str, environment: dict[str, str], words: str
) -> None:
    with pytest.raises(SettingsError, match=words.replace("[", r"\[").replace("(", r"\(").replace("?", r"\?")):
        load(tmp_path, text, environment)


def test_a_mistake_names_the_source_it_stands_in(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"environment variable KVEDGE_PORT: port: 'many' cannot be used"):
        load(tmp_path, "port: 1\n", {"KVEDGE_PORT": "many"})
    with pytest.raises(
        SettingsError, match=r"emulation: 'on' cannot be used: .* auto tries whether KVM works; kvm; tcg"
    ):
        load(tmp_path, "port: 1\n", {"KVEDGE_EMULATION": "on"})
    with pytest.raises(SettingsError, match=r"config\.yaml: bind: localhost is not"):
        load(tmp_path, "bind: localhost\n")


def test_each_value_is_known_with_its_origin(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("port: 1\nbind: 127.0.0.2\npod-cidr: 10.1.0.0/24\n")
    dropped = tmp_path / "config.yaml.d" / "10-port.yaml"
    dropped.parent.mkdir()
    dropped.write_text("port: 2\n")
    loaded = trace_settings(config, {"KVEDGE_BIND": "127.0.0.3"}, {"data_dir": "/srv/x", "node_name": None})
    rows = {key: (value, origin) for key, value, origin in loaded.rows()}
    assert rows["port"] == ("2", str(dropped))
    assert rows["pod-cidr"] == ("10.1.0.0/24", str(config))
    assert rows["bind"] == ("127.0.0.3", "environment variable KVEDGE_BIND")
    assert rows["data-dir"] == ("/srv/x", "command line")
    assert rows["node-name"] == ("", "default")


def test_every_setting_stands_in_the_readme_as_in_the_code() -> None:
    # Its lines are wrapped.
    readme = " ".join((Path(__file__).parents[3] / "packaging" / "README.md").read_text().split())
    missing = [
        facts for facts in setting_facts() if f"- `{facts.key}` ({facts.default}): {facts.description}" not in readme
    ]
    assert not missing


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml", {}, {})


def test_variables_of_the_tests_themselves_are_no_settings(tmp_path: Path) -> None:
    assert load(tmp_path, "", {"KVEDGE_TEST_KEEP": "1", "KVEDGE_CONFIG": "/x"}) == Settings()


def test_a_variable_that_the_program_reads_itself_is_no_unknown_setting(tmp_path: Path) -> None:
    package = Path(kvedge.__file__).parent
    sources = [path.read_text() for path in package.rglob("*.py")]
    read = {name for text in sources for name in re.findall(r'environ(?:\.get\(|\[)"(KVEDGE_[A-Z_]+)"', text)}
    assert read >= {"KVEDGE_CONFIG", "KVEDGE_TRACEBACK"}
    for name in read:
        assert load(tmp_path, "", {name: "1"}) == Settings(), name


def test_the_users_kubeconfig_lies_in_etc_only_for_the_default_data_directory(tmp_path: Path) -> None:
    assert load(tmp_path).user_kubeconfig == Path("/etc/kvedge/kubeconfig")
    assert load(tmp_path, data_dir="/srv/x").user_kubeconfig == Path("/srv/x/kubeconfig")


def test_roles_of_a_node_may_be_listed_in_any_order_and_start_in_theirs(tmp_path: Path) -> None:
    assert load(tmp_path).roles_of_node == ("api", "controller", "handler")
    assert load(tmp_path, "node-roles: handler, api\n").roles_of_node == ("api", "handler")


def test_a_file_that_is_left_out_does_not_count(tmp_path: Path) -> None:
    config, dropped = tmp_path / "config.yaml", tmp_path / "config.yaml.d" / "10-ours.yaml"
    config.write_text("port: 1\n")
    dropped.parent.mkdir()
    dropped.write_text("port: 2\n")
    assert trace_settings(config, {}, {}).settings.port == 2
    assert trace_settings(config, {}, {}, leave_out=dropped).settings.port == 1


@pytest.mark.parametrize("address", ["0.0.0.0:8443", "192.168.1.5:443", "[::]:8443", "[fd00::1]:0"])
def test_the_console_is_served_at_an_address(address: str, tmp_path: Path) -> None:
    assert load(tmp_path, f"console-address: '{address}'\n").console_address == address


@pytest.mark.parametrize(
    "address", ["8443", "0.0.0.0", "box:8443", "::1:8443", "[10.0.0.1]:1", "0.0.0.0:65536", "0.0.0.0:-1", "0.0.0.0:٣"]
)
def test_an_address_of_the_console_that_is_none_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"console-address: .* is not ADDRESS:PORT, such as 0\.0\.0\.0:8443"):
        load(tmp_path, f"console-address: '{address}'\n")

"""The operator's configuration (surface §1.6) and the profile commands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

CONFIG = """
operator: {actor: act-config}
defaults: {store: ./default.omni, output: csv}
servers: {prod: {url: https://example.org}}
clusters: {mine: {root: /data/cluster}}
profiles:
  here: {store: ./here.omni}
  there: {server: prod, default_graph: g}
  many: {cluster: mine}
  wrong: {store: a, server: b}
"""


def test_no_file_is_an_empty_configuration(run: Run) -> None:
    assert run("profile", "list").out == "no profiles in the configuration\n"
    assert json.loads(run("profile", "list", "--json").out) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not YAML"),
        ("- a\n- b", "must be a mapping of names to values"),
        ("profiles: 3", "must be a mapping of names to values"),
        ("servers: {x: {}}", "servers.x needs url"),
        ("defaults: {server: a, store: b}", "keep one"),
        ("defaults: {store: a, default_graph: g}", "default_graph"),
        ("defaults: {output: xml}", "one of table, kv, csv, jsonl, json"),
        ("defaults: {table_cell_layout: fold}", "one of truncate, wrap"),
        ("defaults: {table_max_column_width: wide}", "must be a number"),
    ],
)
def test_a_malformed_configuration_is_an_error(
    run: Run, configure: Callable[[str], None], text: str, said: str
) -> None:
    configure(text)

    ran = run("profile", "list")

    assert ran.code == 1
    assert said in ran.err
    assert "config.yaml" in ran.err


def test_unknown_keys_at_any_level_are_told_and_ignored(run: Run, configure: Callable[[str], None]) -> None:
    configure("mood: good\noperator: {colour: red}\ndefaults: {size: 1}\nprofiles: {p: {store: a, note: x}}")

    ran = run("profile", "list")

    assert ran.code == 0
    for key in ("mood", "operator.colour", "defaults.size", "profiles.p.note"):
        assert f" {key} is not a known key" in ran.err


def test_the_actor_is_the_flag_or_the_configurations(run: Run, add: Run, configure: Callable[[str], None]) -> None:
    configure("operator: {actor: act-config}")

    assert "actor_id: act-config" in add("Ada").out
    assert "actor_id: act-flag" in add("Bo", "--as", "act-flag").out


def test_the_home_of_the_configuration_may_begin_with_a_tilde(
    run: Run, place: Path, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("profiles: {p: {store: a}}")
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("OMNIGRAPH_HOME", "~/home")

    assert run("profile", "list").out == "p  store: a\n"


def test_profiles_are_listed_with_their_problems(
    run: Run, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(CONFIG)
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "here")

    lines = run("profile", "list").out.splitlines()

    assert lines[0] == "here (active)  store: ./here.omni"
    assert lines[1] == "many  cluster: mine"
    assert lines[2] == "there  server: prod · graph: g"
    assert lines[3].startswith("wrong  invalid: ")


def test_profiles_as_json(run: Run, configure: Callable[[str], None]) -> None:
    configure(CONFIG)

    here, _, there, wrong = json.loads(run("profile", "list", "--json").out)

    assert here == {
        "name": "here",
        "binding": "store: ./here.omni",
        "scope_kind": "store",
        "target": "./here.omni",
        "valid": True,
        "error": None,
        "default_graph": None,
        "active": False,
    }
    assert there["default_graph"] == "g"
    assert (wrong["scope_kind"], wrong["valid"], wrong["target"]) == ("invalid", False, None)
    assert "exactly one" in wrong["error"]


@pytest.mark.parametrize(
    ("name", "kind", "target", "endpoint"),
    [
        ("here", "store", "./here.omni", "./here.omni"),
        ("there", "server", "prod", "https://example.org"),
        ("many", "cluster", "mine", "/data/cluster"),
        (None, "store", "./default.omni", "./default.omni"),
    ],
)
def test_a_profile_is_shown_with_the_address_behind_it(
    run: Run, configure: Callable[[str], None], name: str | None, kind: str, target: str, endpoint: str
) -> None:
    configure(CONFIG)

    shown = json.loads(run("profile", "show", *([name] if name else []), "--json").out)

    assert shown["name"] == (name or "(defaults)")
    assert (shown["scope_kind"], shown["target"], shown["endpoint"]) == (kind, target, endpoint)
    assert shown["output_format"] == "csv"


def test_a_profile_is_shown_for_people(run: Run, configure: Callable[[str], None]) -> None:
    configure(CONFIG)

    assert run("profile", "show", "there").out.splitlines() == [
        "profile: there",
        "  scope:   server prod",
        "  endpoint: https://example.org",
        "  default graph: g",
        "  output: csv",
    ]
    assert run("profile", "show", "nobody").code == 1

"""Which graph a command works on, and which flags it takes (surface §1.1 to §1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]

S3 = "s3://no-such-bucket/graph.omni"


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["init", "--schema", "schema.pg", "g.omni", "--server", "x"], "--server"),
        (["init", "--schema", "schema.pg", "g.omni", "--cluster", "x"], "--cluster"),
        (["init", "--schema", "schema.pg", "g.omni", "--graph", "x"], "--graph"),
        (["init", "--schema", "schema.pg", "g.omni", "--store", "x"], "--store"),
        (["init", "--schema", "schema.pg", "g.omni", "--as", "x"], "--as"),
        (["init", "--schema", "schema.pg", "g.omni", "--profile", "x"], "--profile"),
        (["lint", "--query", "queries.gq", "--server", "x"], "--server"),
        (["lint", "--query", "queries.gq", "--as", "x"], "--as"),
        (["schema", "plan", "--schema", "schema.pg", "--server", "x"], "--server"),
        (["schema", "plan", "--schema", "schema.pg", "--cluster", "x"], "--cluster"),
        (["schema", "plan", "--schema", "schema.pg", "--graph", "x"], "--graph"),
        (["doctor", "--server", "x"], "--server"),
        (["recovery", "list", "--as", "x"], "--as"),
        (["snapshot", "--cluster", "x"], "--cluster"),
        (["mutate", "-e", "q", "--cluster", "x"], "--cluster"),
        (["branch", "list", "--cluster", "x"], "--cluster"),
        (["commit", "list", "--as", "x"], "--as"),
        (["commit", "show", "01", "--as", "x"], "--as"),
        (["diff", "a", "b", "--as", "x"], "--as"),
        (["version", "--store", "x"], "--store"),
        (["version", "--profile", "x"], "--profile"),
        (["profile", "list", "--server", "x"], "--server"),
        (["profile", "show", "--as", "x"], "--as"),
    ],
)
def test_a_flag_that_means_nothing_to_a_command_is_refused(run: Run, words: list[str], flag: str) -> None:
    ran = run(*words)

    label = " ".join(word for word in words[:2] if word in ("schema", "plan", words[0], "list", "show"))
    assert ran.code == 1
    assert f"`{label}` is a " in ran.err
    assert f"; {flag} " in ran.err
    assert " and does not apply." in ran.err
    assert ran.err == ran.err.rstrip() + "\n", "no space at the end"
    assert ran.out == ""


def test_the_first_misplaced_flag_in_a_fixed_order_is_named(run: Run) -> None:
    ran = run(
        "version", "--profile", "p", "--as", "a", "--store", "s", "--graph", "g", "--cluster", "c", "--server", "x"
    )

    assert "; --server " in ran.err


def test_global_flags_stand_before_or_after_the_command(run: Run, graph: str) -> None:
    before = run("--store", graph, "snapshot", "--json")
    between = run("branch", "--store", graph, "list")
    after = run("snapshot", "--store", graph, "--json")

    assert before.code == between.code == after.code == 0
    assert before.out == after.out
    assert between.out == "main\n"


def test_a_flag_after_the_command_wins_over_one_before_it(run: Run, graph: str) -> None:
    assert run("--store", "nowhere.omni", "snapshot", "--store", graph).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["snapshot", "a.omni", "--store", "b.omni"],
        ["snapshot", "a.omni", "--server", "https://x"],
        ["snapshot", "--store", "b.omni", "--server", "https://x"],
        ["lint", "--query", "queries.gq", "a.omni", "--cluster", "c"],
        ["branch", "list", "a.omni", "--uri", "b.omni"],
    ],
)
def test_a_graph_is_addressed_in_one_way(run: Run, words: list[str]) -> None:
    ran = run(*words)

    assert ran.code == 1
    assert "mutually exclusive" in ran.err


def test_no_graph_addressed_is_an_error_that_says_how(run: Run) -> None:
    ran = run("snapshot")

    assert ran.code == 1
    assert "no graph addressed" in ran.err
    assert "--store" in ran.err


@pytest.mark.parametrize("words", [["snapshot", "g.omni"], ["snapshot", "--store", "g.omni"]])
def test_graph_ids_are_for_scopes_with_several_graphs(run: Run, words: list[str]) -> None:
    ran = run(*words, "--graph", "x")

    assert ran.code == 1
    assert "--graph" in ran.err


@pytest.mark.parametrize("uri", ["http://example.org/graphs/g", "https://example.org"])
@pytest.mark.parametrize(
    "words",
    [["snapshot"], ["branch", "list"], ["branch", "create", "b", "--uri"], ["commit", "list"], ["schema", "show"]],
)
def test_the_address_of_a_server_is_refused_and_told_apart(run: Run, words: list[str], uri: str) -> None:
    ran = run(*words, uri)

    assert ran.code == 1
    assert "--server" in ran.err
    assert "stores directly" in ran.err


@pytest.mark.parametrize("server", ["https://example.org", "prod"])
def test_server_scopes_are_refused_because_there_is_no_client(
    run: Run, configure: Callable[[str], None], server: str
) -> None:
    configure("servers: {prod: {url: https://example.org}}")

    ran = run("snapshot", "--server", server)

    assert ran.code == 1
    assert "stores directly" in ran.err


def test_an_unknown_server_is_told_with_the_known_ones(run: Run, configure: Callable[[str], None]) -> None:
    configure("servers: {prod: {url: https://a}, test: {url: https://b}}")

    ran = run("snapshot", "--server", "prdo")

    assert ran.code == 1
    assert "prod, test" in ran.err


# -- profiles and defaults ---------------------------------------------------------------------------------------------


def test_a_profile_names_a_store(run: Run, graph: str, configure: Callable[[str], None]) -> None:
    configure(f"profiles: {{here: {{store: {graph}}}}}")

    assert run("snapshot", "--profile", "here").code == 0


def test_the_profile_of_the_environment_counts_unless_empty(
    run: Run, graph: str, configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(f"profiles: {{here: {{store: {graph}}}}}")

    monkeypatch.setenv("OMNIGRAPH_PROFILE", "here")
    assert run("snapshot").code == 0
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "")
    assert "no graph addressed" in run("snapshot").err


def test_the_profile_of_the_environment_is_passed_over_where_it_means_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "nowhere")

    assert run("version").code == 0
    assert run("init", "--schema", "schema.pg", "graph.omni").code == 0


def test_an_explicit_graph_wins_over_the_profile(run: Run, graph: str, configure: Callable[[str], None]) -> None:
    configure("profiles: {here: {store: nowhere.omni}}")

    assert run("snapshot", graph, "--profile", "here").code == 0


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("nobody", "known profiles: cluster, empty, graphed, server, several"),
        ("several", "exactly one"),
        ("empty", "exactly one"),
        ("graphed", "default_graph"),
        ("server", "stores directly"),
        ("cluster", "cluster"),
    ],
)
def test_profiles_are_checked_when_they_are_used(
    run: Run, configure: Callable[[str], None], profile: str, said: str
) -> None:
    configure(
        "profiles:\n"
        "  several: {store: a, server: b}\n"
        "  empty: {}\n"
        "  graphed: {store: a, default_graph: g}\n"
        "  server: {server: https://x}\n"
        "  cluster: {cluster: c}\n"
    )

    ran = run("snapshot", "--profile", profile)

    assert ran.code == 1
    assert said in ran.err


def test_the_default_store_comes_last(run: Run, graph: str, configure: Callable[[str], None]) -> None:
    configure(f"defaults: {{store: {graph}}}")

    assert run("snapshot").code == 0
    assert "--graph" in run("snapshot", "--graph", "g").err


def test_a_default_server_is_refused_like_any_server(run: Run, configure: Callable[[str], None]) -> None:
    configure("defaults: {server: prod}")

    assert "stores directly" in run("snapshot").err


# -- where is written, and consent -------------------------------------------------------------------------------------


def test_writes_to_branches_say_where_unless_quiet(run: Run, graph: str) -> None:
    told = run("branch", "create", "one", "--uri", graph)
    quiet = run("branch", "create", "two", "--uri", graph, "--quiet")

    assert told.err == f"omnigraph branch create → {graph} (direct, local)\n"
    assert quiet.err == ""
    assert told.out == "created branch one from main\n"


def test_mutations_and_reads_say_nothing_on_stderr(run: Run, graph: str, add: Run) -> None:
    assert add("Ada").err == ""
    assert run("snapshot", graph).err == ""


def test_destroying_something_remote_needs_consent(run: Run) -> None:
    ran = run("branch", "delete", "b", "--uri", S3)

    assert ran.code == 1
    assert "--yes" in ran.err
    assert "(direct, remote)" in ran.err


def test_json_never_asks(run: Run) -> None:
    assert "--yes" in run("branch", "delete", "b", "--uri", S3, "--json", stdin="yes\n").err


def test_destroying_something_local_needs_none(run: Run, graph: str) -> None:
    run("branch", "create", "b", "--uri", graph)

    assert run("branch", "delete", "b", "--uri", graph).code == 0
    assert run("branch", "create", "b", "--uri", graph).code == 0
    assert run("branch", "delete", "b", "--uri", f"file://{_absolute(graph)}").code == 0


def _absolute(graph: str) -> str:
    from pathlib import Path

    return str(Path(graph).absolute())

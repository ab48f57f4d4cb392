"""The rules of the command line, each with the tests that hold it, and the table of which flag means what to whom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.core import TyperGroup

from cli.test_help import EVERY
from omnigraph.cli.frame.capabilities import FLAGS, applies

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.conftest import Ran

    Run = Callable[..., Ran]
    Terminal = Callable[..., tuple[int, str]]

S3 = "s3://no-such-bucket/graph.omni"
RULES = {
    "global flags stand before or after the command": "test_global_flags_stand_before_or_after_the_command",
    "the later of two wins": "test_a_flag_after_the_command_wins_over_one_before_it",
    "--as over operator.actor": "test_the_actor_is_the_flag_or_the_configurations",
    "--server is an address or a known name": "test_an_unknown_server_is_told_with_the_known_ones",
    "--graph picks a graph of a cluster": "test_several_graphs_or_none_need_a_choice",
    "--profile, else OMNIGRAPH_PROFILE unless empty": "test_the_profile_of_the_environment_counts_unless_empty",
    "--store is one graph": "test_graph_ids_are_for_scopes_with_several_graphs",
    "--cluster is a name, a directory or a root": "test_a_cluster_directory_says_where_it_stores",
    "--yes consents": "test_consent_is_the_flag_or_the_answer_of_a_person",
    "--quiet leaves the echo out": "test_every_command_that_writes_to_a_place_says_where",
    "-v is the version, -V is not": "test_the_version_flag_is_a_small_v",
    "a flag applies or is refused": "test_a_flag_applies_to_exactly_these_commands",
    "the refusal has one shape": "test_a_flag_that_means_nothing_to_a_command_is_refused",
    "the first offender is named": "test_of_two_misplaced_flags_the_first_in_the_order_is_named",
    "an ambient profile is passed over": "test_the_profile_of_the_environment_is_passed_over_where_it_means_nothing",
    "one way to address a graph": "test_a_graph_is_addressed_in_one_way",
    "explicit, then profile, then default": "test_the_default_store_comes_last",
    "an explicit graph wins over a profile": "test_an_explicit_graph_wins_over_the_profile",
    "nothing addressed": "test_no_graph_addressed_is_an_error_that_says_how",
    "profiles are checked when used": "test_profiles_are_checked_when_they_are_used",
    "the only graph of a cluster is taken": "test_the_only_graph_of_a_cluster_is_taken",
    "http addresses are for --server": "test_the_address_of_a_server_is_refused_by_every_command",
    "a path and file:// are local": "test_destroying_something_local_needs_none",
    "what destroys needs consent elsewhere": "test_what_destroys_asks_before_it_looks",
    "--json never asks": "test_json_never_asks",
    "a person is asked": "test_a_person_is_asked_before_something_remote_is_destroyed",
    "mutate does not echo": "test_mutations_and_reads_say_nothing_on_stderr",
    "init makes directories": "test_init_says_where_and_makes_the_directories_above",
    "init refuses a graph": "test_init_never_touches_a_graph",
    "init leaves clusters alone": "test_init_leaves_the_graphs_of_a_cluster_to_it",
    "init --force": "test_force_replaces_schema_files_without_a_graph",
    "load needs a mode": "test_a_load_must_name_one_of_three_modes",
    "load --from": "test_a_load_makes_its_branch_only_from_a_named_one",
    "ingest is old": "test_ingest_still_works_merges_from_main_and_warns",
    "query: one source, one set of parameters": "test_options_that_exclude_each_other",
    "query: no positional URI, mutate neither": "test_mutate_takes_no_positional_uri",
    "query: a name among several": "test_of_several_queries_one_must_be_named",
    "query: stored ones are served": "test_a_name_alone_would_be_a_stored_query_and_those_are_served",
    "query: --json, --format, configuration, table": (
        "test_the_configuration_says_how_rows_are_printed_unless_a_flag_does"
    ),
    "mutate: a lost --if-commit is 4": "test_a_lost_precondition_exits_4",
    "branch: defaults and lines": "test_branches_are_made_from_main_or_another_and_listed_by_name",
    "branch merge --delete-branch": "test_a_refused_delete_after_a_merge_is_a_warning",
    "commit list is newest first": "test_commits_are_listed_newest_first",
    "commit changes: pages and filters": "test_one_commit_is_told_page_by_page",
    "changes poll": "test_a_poll_starts_anywhere_and_takes_filters_and_a_limit",
    "changes poll: a cursor or a start": "test_a_poll_begins_at_one_place",
    "changes baseline": "test_a_baseline_replaces_its_file_as_a_whole",
    "snapshot lines": "test_a_snapshot_in_a_pipe_is_the_lines_that_scripts_read",
    "export --type, hidden --jsonl": "test_the_old_flag_of_export_warns",
    "blob get: a part, a file, an external one": "test_get_writes_a_file_only_when_there_is_something_to_write",
    "blob get: impossible parts": "test_an_impossible_part_of_a_blob_is_refused_before_anything_is_read",
    "schema plan": "test_a_plan_is_made_against_a_graph_or_a_file",
    "schema apply in a cluster": "test_a_schema_of_a_cluster_is_changed_there",
    "optimize": "test_optimize_as_json",
    "repair exits 1 on a refusal": "test_repair_looks_and_takes_and_refuses",
    "cleanup tells until confirmed": "test_cleanup_only_tells_until_it_is_confirmed",
    "cleanup needs a policy, durations": "test_durations_are_a_number_and_one_unit",
    "lint exits 1 on errors": "test_errors_exit_1_and_are_in_the_report",
    "old names": "test_old_names_of_lint_still_work_and_warn",
    "version: two lines": "test_exit_codes_of_a_real_process",
    "the shapes of JSON": "test_the_json_of_every_command",
    "formats of rows": "test_every_format",
    "configuration: malformed": "test_a_malformed_configuration_is_an_error",
    "configuration: unknown keys": "test_unknown_keys_at_any_level_are_told_and_ignored",
    "configuration: its home": "test_the_home_of_the_configuration_may_begin_with_a_tilde",
}


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_test(rule: str) -> None:
    everything = "\n".join(each.read_text() for each in Path(__file__).parent.glob("test_*.py"))

    assert re.search(rf"^def {RULES[rule]}\(", everything, re.MULTILINE)


# -- which flag means what to whom -------------------------------------------------------------------------------------

ON_STORES = {"store", "profile"}
ANYWHERE = {*ON_STORES, "server", "graph"}
IN_CLUSTERS = {*ON_STORES, "cluster", "graph"}
EXPECTED: dict[str, set[str]] = {
    "init": set(),
    **dict.fromkeys(("optimize", "repair", "cleanup", "lint"), IN_CLUSTERS),
    **dict.fromkeys(("schema plan", "ensure-indices", "recovery list", "doctor"), ON_STORES),
    **{key: set() for key in ("embed", "version", "completion", "profile list", "profile show")},
    **dict.fromkeys(("query", "diff", "blob get", "blob stat", "changes poll", "changes baseline"), ANYWHERE),
    **dict.fromkeys(("commit list", "commit show", "commit changes"), ANYWHERE),
    **{key: {*ANYWHERE, "as"} for key in ("load", "ingest", "mutate", "snapshot", "export", "revert")},
    **{key: {*ANYWHERE, "as"} for key in (f"branch {verb}" for verb in ("create", "list", "delete", "merge"))},
    **{key: {*ANYWHERE, "as"} for key in (f"tag {verb}" for verb in ("create", "list", "delete"))},
    **{key: {*ANYWHERE, "as"} for key in (f"schema {verb}" for verb in ("show", "get", "apply"))},
    **{key: {*ANYWHERE, "as"} for key in (f"pipeline {verb}" for verb in ("validate", "plan", "run"))},
}
# What each command needs to get as far as its flags.
NEEDED = {
    "init": ["--schema", "schema.pg", "new.omni"],
    "load": ["--data", "x", "--mode", "merge"],
    "ingest": ["--data", "x"],
    "lint": ["--query", "queries.gq"],
    "query": ["-e", "q"],
    "mutate": ["-e", "q"],
    "diff": ["a", "b"],
    "revert": ["01"],
    "completion": ["bash"],
    "cleanup": ["--keep", "1"],
    **{key: ["node", "T", "i", "p"] for key in ("blob get", "blob stat")},
    "changes baseline": ["--out", "x"],
    **{key: ["01"] for key in ("commit show", "commit changes")},
    **{key: ["b"] for key in ("branch create", "branch delete", "branch merge", "tag create", "tag delete")},
    **{key: ["--schema", "schema.pg"] for key in ("schema plan", "schema apply")},
    **{key: ["p.yaml"] for key in ("pipeline validate", "pipeline plan", "pipeline run")},
}
LABELS = [" ".join(words) for words, command in EVERY.items() if not isinstance(command, TyperGroup)]


def test_every_command_is_in_the_table() -> None:
    assert set(LABELS) == set(EXPECTED)


@pytest.mark.parametrize("label", LABELS)
def test_a_flag_applies_to_exactly_these_commands(run: Run, label: str) -> None:
    assert {flag for flag in FLAGS if applies(flag, label)} == EXPECTED[label]
    for flag in sorted(set(FLAGS) - EXPECTED[label]):
        ran = run(*label.split(), *NEEDED.get(label, []), f"--{flag}", "x")
        assert (ran.code, ran.out) == (1, "")
        assert re.search(rf"`{label}` is a [\w() ]+ command; --{flag} .* and does not apply\.", ran.err), ran.err


@pytest.mark.parametrize(("first", "second"), [(FLAGS[at], FLAGS[at + 1]) for at in range(len(FLAGS) - 1)])
def test_of_two_misplaced_flags_the_first_in_the_order_is_named(run: Run, first: str, second: str) -> None:
    assert FLAGS == ("server", "cluster", "graph", "store", "as", "profile")
    assert f"; --{first} " in run("version", f"--{second}", "x", f"--{first}", "x").err


BY_OPTION = (
    "diff",
    "revert",
    "tag create",
    "branch create",
    "branch delete",
    "branch merge",
    "commit show",
    "changes poll",
)
BY_PLACE = ("snapshot", "export", "commit list", "branch list", "tag list", "schema show", "optimize", "doctor", "lint")
BY_STORE = ("query", "mutate", "blob stat")


@pytest.mark.parametrize(
    ("label", "way"),
    [
        *((label, ["--uri"]) for label in BY_OPTION),
        *((label, []) for label in BY_PLACE),
        *((label, ["--store"]) for label in BY_STORE),
    ],
)
def test_the_address_of_a_server_is_refused_by_every_command(run: Run, label: str, way: list[str]) -> None:
    ran = run(*label.split(), *NEEDED.get(label, []), *way, "https://example.org/graphs/g")

    assert (ran.code, ran.out) == (1, "")
    assert "--server" in ran.err
    assert "stores directly" in ran.err


# -- consent and echo --------------------------------------------------------------------------------------------------

DESTROYING = {
    "branch delete": ["branch", "delete", "b", "--uri", S3],
    "cleanup --confirm": ["cleanup", S3, "--keep", "1", "--confirm"],
    "load --mode overwrite": ["load", S3, "--data", "x", "--mode", "overwrite"],
    "ingest --mode overwrite": ["ingest", S3, "--data", "x", "--mode", "overwrite"],
}


@pytest.mark.parametrize("label", DESTROYING)
def test_what_destroys_asks_before_it_looks(run: Run, label: str) -> None:
    for words in (DESTROYING[label], [*DESTROYING[label], "--json"]):
        ran = run(*words)
        assert (ran.code, ran.out) == (1, "")
        assert "pass --yes to consent" in ran.err
        assert "(direct, remote)" in ran.err


@pytest.mark.parametrize(
    ("flags", "answer", "is_done"),
    [(["--yes"], None, True), ([], "yes", True), ([], "y", True), ([], "Y", True), ([], "no", False), ([], "", False)],
)
def test_consent_is_the_flag_or_the_answer_of_a_person(
    at_a_terminal: Terminal, flags: list[str], answer: str | None, is_done: bool
) -> None:
    # Whoever consents gets as far as the store, whose address is none.
    code, shown = at_a_terminal(*DESTROYING["cleanup --confirm"], *flags, answer=answer, AWS_ENDPOINT_URL_S3="nowhere")

    assert code == 1
    assert ("is not a URL" in shown) is is_done
    assert ("nothing was changed" in shown) is not is_done


ECHOING = {
    "load": ["load", "--data", "x", "--mode", "merge"],
    "ingest": ["ingest", "--data", "x"],
    "branch create": ["branch", "create", "b"],
    "branch delete": ["branch", "delete", "b"],
    "branch merge": ["branch", "merge", "b"],
    "schema apply": ["schema", "apply", "--schema", "schema.pg"],
    "optimize": ["optimize"],
    "repair": ["repair"],
    "cleanup": ["cleanup", "--keep", "1", "--confirm"],
}


@pytest.mark.parametrize("label", ECHOING)
def test_every_command_that_writes_to_a_place_says_where(run: Run, label: str) -> None:
    told = run(*ECHOING[label], "--store", "nowhere.omni")
    quiet = run(*ECHOING[label], "--store", "nowhere.omni", "--quiet")

    assert f"omnigraph {label} → nowhere.omni (direct, local)\n" in told.err
    assert "→" not in quiet.err


# -- single commands ---------------------------------------------------------------------------------------------------


def test_a_poll_begins_at_one_place(run: Run, graph: str) -> None:
    ran = run("changes", "poll", "--uri", graph, "--cursor", "c", "--start", "now")

    assert ran.code == 2
    assert "cannot be used together" in ran.err
    assert "--start" in run("changes", "poll", "--uri", graph, "--start", "yesterday").err


@pytest.mark.parametrize("part", [["--length", "0"], ["--offset", "-1"], ["--offset", str(2**64), "--length", "1"]])
def test_an_impossible_part_of_a_blob_is_refused_before_anything_is_read(run: Run, part: list[str]) -> None:
    ran = run("blob", "get", "node", "T", "i", "p", "--store", "nowhere.omni", *part)

    assert ran.code in (1, 2)
    assert "not_a_graph" not in ran.err
    assert part[0] in ran.err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("3h", 10_800), ("1d", 86_400), ("2w", 1_209_600)]
)
def test_durations_are_a_number_and_one_unit(text: str, seconds: int) -> None:
    from omnigraph.maintenance.cleanup import duration

    assert duration(text).total_seconds() == seconds

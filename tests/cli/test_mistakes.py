"""Mistakes that people make: each is told in words that say what to do, with the exit code of its kind."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Ran

    Run = Callable[..., Ran]

FILES = {
    "data.jsonl": '{"type":"Person","data":{"name":"Ada","age":36}}\n',
    "property.jsonl": '{"type":"Person","data":{"name":"Bo","agee":3}}\n',
    "type.jsonl": '{"type":"Persn","data":{"name":"Bo"}}\n',
    "comma.jsonl": '{"type":"Person","data":{"name":"Bo",}}\n',
    "value.jsonl": '{"type":"Person","data":{"name":"Bo","age":"x"}}\n',
    "notes.txt": "x\n",
    "wrong.pg": "node Person { name: Strin }\n",
    "wrong.gq": "query everybody() { match { $p: Person } return { $p.nam } }\n",
    "unread.gq": "query x( { }\n",
}
USAGE = {
    "branc list": "Did you mean 'branch'?",
    "branch lst": "Did you mean 'list'?",
    "snapshot --jsn": "--json",
    "branch create": "Missing argument 'NAME'",
    "load graph.omni --data data.jsonl": "Missing option '--mode'. Choose from",
    "load graph.omni --data data.jsonl --mode replace": "'replace' is not one of 'overwrite', 'append', 'merge'",
    "load graph.omni data.jsonl --mode merge": "Missing option '--data'",
    "init new.omni": "Missing option '--schema'",
    "query everybody graph.omni --query queries.gq": "The graph is given with --store URI.",
    "query everybody --query queries.gq --format tabel --store graph.omni": "'table', 'kv', 'csv'",
    "commit list graph.omni --limit 0": "not in the range x>=1",
    "load graph.omni --data data.jsonl --mode merge --mode append": "--mode is given more than once",
    "snapshot graph.omni --branch main --branch side": "--branch is given more than once",
    "--store graph.omni --store other.omni snapshot": "--store is given more than once",
    "branch create a --uri graph.omni --from main --form main": "No such option",
    "completion csh": "'bash', 'zsh', 'fish'",
    "export graph.omni --format parquet": "say where with --out",
}
TOLD = {
    "snapshot nowhere.omni": "make one with init, or check the location",
    "snapshot data.jsonl": "there is no graph at",
    "snapshot ftp://x/y": "use a path, file:// or one of s3://",
    "snapshot graph.omni --branch mian": "hint: `omnigraph branch list`",
    "snapshot graph.omni --at 01XX": "hint: `omnigraph commit list`",
    "branch create 'a b' --uri graph.omni": "use letters, digits",
    "branch delete nobody --uri graph.omni": "hint: `omnigraph branch list`",
    "query everybdy --query queries.gq --store graph.omni": "the file has: add, grow, meet, everybody",
    "query --query queries.gq --store graph.omni": "pass a name: add, grow, meet, everybody",
    "query everybody --query nowhere.gq --store graph.omni": "nowhere.gq cannot be read: No such file",
    "query everybody --query wrong.gq --store graph.omni": "wrong.gq:1:51: error[T6]: node Person has no property",
    "query x --query unread.gq --store graph.omni": "unread.gq:1:10: error[Q000]",
    "query add --query queries.gq --store graph.omni": "run it with `omnigraph mutate`",
    "mutate everybody --query queries.gq --store graph.omni": "run it with `omnigraph query`",
    "mutate add --query queries.gq --store graph.omni": "hint: parameters are given as --params",
    'mutate add --query queries.gq --store graph.omni --params \'{"nmae": "x"}\'': "did you mean 'name'?",
    "mutate add --query queries.gq --store graph.omni --params {name:1}": "the parameters are not JSON",
    "mutate add --query queries.gq --store graph.omni --params [1]": "must be a JSON object",
    "query everybody": "give `query` a file with --query or the text with -e",
    "load graph.omni --data nowhere.jsonl --mode merge": "check the path",
    "load graph.omni --data property.jsonl --mode merge": "property.jsonl, line 1: Person has no property 'agee'",
    "load graph.omni --data type.jsonl --mode merge": "did you mean 'Person'?",
    "load graph.omni --data comma.jsonl --mode merge": "comma.jsonl, line 1: not JSON",
    "load graph.omni --data value.jsonl --mode merge": "Person.age: expected I32?",
    "load graph.omni --data notes.txt --mode merge": "the suffix determines the format",
    "init --schema schema.pg graph.omni": "choose another location",
    "init --schema wrong.pg new.omni": "wrong.pg:1:21: error[S005]: there is no type `Strin`: did you mean String?",
    "schema apply graph.omni --schema wrong.pg": "wrong.pg:1:21: error[S005]",
    "schema apply graph.omni --schema nowhere.pg": "nowhere.pg cannot be read",
    "export graph.omni --out missing/all.jsonl": "missing/all.jsonl",
    "commit list graph.omni --filter actr=x": "one of the keys actor, branch",
    "changes poll --uri graph.omni --start yesterday": "write now, beginning, or after:COMMIT",
    "cleanup graph.omni": "--keep N, --older-than D, or both",
    "pipeline validate nowhere.yaml": "nowhere.yaml cannot be read",
    "profile show nobody": "known profiles: none",
    "lint --query queries.gq": "give a URI, --store URI or --profile NAME",
}


def test_every_mistake_is_told_with_what_to_do(run: Run, place: Path, graph: str) -> None:
    for name, text in FILES.items():
        (place / name).write_text(text)
    for code, lines in ((2, USAGE), (1, TOLD)):
        for line, said in lines.items():
            ran = run(*shlex.split(line))
            assert (ran.code, ran.out) == (code, ""), line
            assert said in ran.err, line
            assert "internal" not in ran.err
    assert "entities=0" in run("snapshot", graph).out, "a mistake writes nothing"

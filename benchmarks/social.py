"""Nine questions about a social network: this engine and its peers, in one run, on the same data.

    python benchmarks/social.py [--persons 100000] [--runs 9] [--folder DIR]

Peers run when their package is installed: duckdb (hand-written SQL over native tables), kuzu, ladybug, and lance-graph
over tables in memory. Every answer is compared with DuckDB's; a wrong one is a failure, not a time. Queries are
prepared once by everybody. The first asking of a question is told apart (cold: nothing that only this question needs is
in memory yet); then everybody is asked it eight times more before it counts. Times are medians; a ratio is ours over
the best peer.

Cypher is written from the end that is grouped by: from the other end kuzu takes 30 times as long for the first two.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import math
import multiprocessing
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.catalog.arrow import table_arrow_schemas
from omnigraph.catalog.indexes import table_indexes
from omnigraph.language.gq.check import check_query
from omnigraph.language.gq.syntax.parse import parse_queries
from omnigraph.language.ir.params import bind_params
from omnigraph.language.schema.compile import compile_schema
from omnigraph.manifest.layout import table_path
from omnigraph.manifest.snapshot import Snapshot, TableEntry
from omnigraph.query.run import PreparedQuery
from omnigraph.storage.objects.location import parse_location
from omnigraph.storage.tables.indexes import IndexSpec, stage_indexes
from omnigraph.storage.tables.new_tables import create_table
from omnigraph.storage.tables.staging import commit_staged
from omnigraph.storage.tables.table import TableStore
from omnigraph.world import REAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection

    Answer = tuple[list[tuple[Any, ...]], float]
    Ask = Callable[[], Answer]

SEED = 20_260_101
TODAY = dt.date(2026, 1, 1)
WARM_UP = 8
PATIENCE = 4_000.0
COUNTRIES = ("United States", "Canada", "United Kingdom")
INTERESTS = ("Photography", "Tennis", "Fine Dining", "Bicycles", "Cooking", "Chess", "Films", "Gardening", "Music",
             "Running", "Sailing", "Skiing", "Theatre", "Travel", "Yoga", "History", "Opera", "Poetry", "Hiking",
             "Fishing", "Games", "Coding", "Cars", "Board Games", "Dancing", "Drawing", "Football", "Golf", "Jazz",
             "Painting", "Reading", "Wine", "Pottery", "Puzzles", "Robots", "Soccer", "Swimming", "Trains",
             "Volunteering", "Writing", "Fashion")  # fmt: skip

Tables = dict[str, pa.Table]


# -- data --------------------------------------------------------------------------------------------------------------


def generate(persons: int) -> Tables:
    """The same network for the same number of persons: a few are followed by very many."""
    random = np.random.default_rng(SEED)
    states, cities = 90 * len(COUNTRIES), max(30, persons // 14)
    born = np.array(
        [np.datetime64(TODAY) - np.timedelta64(int(each), "D") for each in random.integers(18 * 366, 70 * 365, persons)]
    )
    ages = ((np.datetime64(TODAY) - born).astype(int) / 365.2425).astype(np.int32)
    state_country = np.arange(states) % len(COUNTRIES)
    city_state = random.integers(0, states, cities)
    return {
        "Person": pa.table({
            "key": np.arange(persons, dtype=np.int64), "name": [f"Person {n:06d}" for n in range(persons)],
            "gender": np.where(random.random(persons) < 0.5, "female", "male"), "age": ages, "born": pa.array(born),
        }),
        "City": pa.table({"key": np.arange(cities, dtype=np.int64), "name": [f"City {n:05d}" for n in range(cities)]}),
        "State": pa.table({"key": np.arange(states, dtype=np.int64), "name": [f"State {n}" for n in range(states)]}),
        "Country": pa.table({"key": np.arange(len(COUNTRIES), dtype=np.int64), "name": list(COUNTRIES)}),
        "Interest": pa.table({"key": np.arange(len(INTERESTS), dtype=np.int64), "name": list(INTERESTS)}),
        "Follows": _follows(random, persons),
        "LivesIn": _edges(np.arange(persons), _skewed(random, persons, cities, 1.3)),
        "HasInterest": _interests(random, persons),
        "CityIn": _edges(np.arange(cities), city_state),
        "StateIn": _edges(np.arange(states), state_country),
    }  # fmt: skip


def _edges(src: Any, dst: Any) -> pa.Table:
    return pa.table({"src": np.asarray(src, np.int64), "dst": np.asarray(dst, np.int64)})


def _skewed(random: np.random.Generator, count: int, ends: int, power: float) -> Any:
    return np.minimum((ends * random.random(count) ** power).astype(np.int64), ends - 1)


def _follows(random: np.random.Generator, persons: int) -> pa.Table:
    """About 24 for each person; no pair twice, nobody follows themselves."""
    wanted = int(24.8 * persons)
    src = random.integers(0, persons, wanted)
    dst = random.permutation(persons)[_skewed(random, wanted, persons, 1.6)]
    codes = np.unique(src[src != dst] * persons + dst[src != dst])
    random.shuffle(codes)
    return _edges(codes // persons, codes % persons)


def _interests(random: np.random.Generator, persons: int) -> pa.Table:
    src = np.repeat(np.arange(persons), random.integers(1, 5, persons))
    codes = np.unique(src * len(INTERESTS) + random.integers(0, len(INTERESTS), len(src)))
    return _edges(codes // len(INTERESTS), codes % len(INTERESTS))


# -- questions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One question in every language, and the values it is asked with."""

    title: str
    gq: str
    cypher: str
    sql: str
    params: dict[str, Any] = field(default_factory=dict)
    # The Cypher of an engine that has no WITH.
    plain_cypher: str | None = None


QUESTIONS = (
    Question(
        "top 3 most followed",
        "match { $a follows $p } return { $p.key, $p.name, count($a) as n } order { n desc, $p.key } limit 3",
        "MATCH (p:Person)<-[:Follows]-(a:Person) WITH p, count(*) AS n ORDER BY n DESC, p.key LIMIT 3"
        " RETURN p.key, p.name, n ORDER BY n DESC, p.key",
        "SELECT p.key, p.name, n FROM"
        " (SELECT dst, count(*) AS n FROM Follows GROUP BY dst ORDER BY n DESC, dst LIMIT 3)"
        " JOIN Person p ON p.key = dst ORDER BY n DESC, p.key",
        plain_cypher="MATCH (a:Person)-[:Follows]->(p:Person)"
        " RETURN p.key AS key, p.name AS name, count(*) AS n ORDER BY n DESC, key LIMIT 3",
    ),
    Question(
        "city of the most followed",
        "match { $a follows $p $p livesIn $c $c cityIn $s $s stateIn $o }"
        " return { $p.key, $p.name, count($a) as n, $c.name, $s.name, $o.name } order { n desc, $p.key } limit 1",
        "MATCH (p:Person)<-[:Follows]-(a:Person) WITH p, count(*) AS n ORDER BY n DESC, p.key LIMIT 1"
        " MATCH (p)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country)"
        " RETURN p.key, p.name, n, c.name, s.name, o.name",
        "SELECT p.key, p.name, n, c.name, s.name, o.name FROM (SELECT dst, count(*) AS n FROM Follows GROUP BY dst"
        " ORDER BY n DESC, dst LIMIT 1) JOIN Person p ON p.key = dst JOIN LivesIn l ON l.src = p.key"
        " JOIN City c ON c.key = l.dst JOIN CityIn i ON i.src = c.key JOIN State s ON s.key = i.dst"
        " JOIN StateIn j ON j.src = s.key JOIN Country o ON o.key = j.dst",
        plain_cypher="MATCH (a:Person)-[:Follows]->(p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)"
        "-[:StateIn]->(o:Country) RETURN p.key AS key, p.name AS name, count(*) AS n, c.name AS city, s.name AS state,"
        " o.name AS country ORDER BY n DESC, key LIMIT 1",
    ),
    Question(
        "5 youngest cities of a country",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $o.name = $country }"
        " return { $c.name, avg($p.age) as age } order { age, $c.name } limit 5",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country) WHERE o.name = $country"
        " RETURN c.name, avg(p.age) AS age ORDER BY age, c.name LIMIT 5",
        "SELECT c.name, avg(p.age) AS age FROM Country o JOIN StateIn j ON j.dst = o.key JOIN CityIn i ON i.dst = j.src"
        " JOIN City c ON c.key = i.src JOIN LivesIn l ON l.dst = c.key JOIN Person p ON p.key = l.src"
        " WHERE o.name = $country GROUP BY c.key, c.name ORDER BY age, c.name LIMIT 5",
        {"country": "United States"},
    ),
    Question(
        "persons aged 30 to 40 per country",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $p.age >= $low and $p.age <= $high }"
        " return { $o.name, count($p) as n } order { n desc } limit 3",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country)"
        " WHERE p.age >= $low AND p.age <= $high RETURN o.name, count(p) AS n ORDER BY n DESC LIMIT 3",
        "SELECT o.name, count(*) AS n FROM Person p JOIN LivesIn l ON l.src = p.key JOIN CityIn i ON i.src = l.dst"
        " JOIN StateIn j ON j.src = i.dst JOIN Country o ON o.key = j.dst WHERE p.age BETWEEN $low AND $high"
        " GROUP BY o.name ORDER BY n DESC LIMIT 3",
        {"low": 30, "high": 40},
    ),
    Question(
        "men in a city with an interest",
        "match { $p livesIn $c $p hasInterest $i $p.gender = $gender $c.name = $city $i.name = $interest }"
        " return { count($p) as n }",
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City)"
        " WHERE p.gender = $gender AND c.name = $city AND i.name = $interest RETURN count(p) AS n",
        "SELECT count(*) AS n FROM Person p JOIN LivesIn l ON l.src = p.key JOIN City c ON c.key = l.dst"
        " JOIN HasInterest h ON h.src = p.key JOIN Interest i ON i.key = h.dst"
        " WHERE p.gender = $gender AND c.name = $city AND i.name = $interest",
        {"gender": "male", "city": "City 00003", "interest": "Fine Dining"},
    ),
    Question(
        "city with most women who like a thing",
        "match { $p livesIn $c $p hasInterest $i $p.gender = $gender $i.name = $interest }"
        " return { $c.name, count($p) as n } order { n desc, $c.name } limit 1",
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City)"
        " WHERE p.gender = $gender AND i.name = $interest RETURN c.name, count(p) AS n ORDER BY n DESC, c.name LIMIT 1",
        "SELECT c.name, count(*) AS n FROM Person p JOIN HasInterest h ON h.src = p.key"
        " JOIN Interest i ON i.key = h.dst JOIN LivesIn l ON l.src = p.key"
        " JOIN City c ON c.key = l.dst WHERE p.gender = $gender AND i.name = $interest"
        " GROUP BY c.name ORDER BY n DESC, c.name LIMIT 1",
        {"gender": "female", "interest": "Tennis"},
    ),
    Question(
        "state with most of 23 to 30 who like a thing",
        "match { $p livesIn $c $c cityIn $s $s stateIn $o $p hasInterest $i $p.age >= $low and $p.age <= $high"
        " $o.name = $country $i.name = $interest }"
        " return { $s.name, count($p) as n } order { n desc, $s.name } limit 1",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country),"
        " (p)-[:HasInterest]->(i:Interest) WHERE p.age >= $low AND p.age <= $high AND o.name = $country"
        " AND i.name = $interest RETURN s.name, count(p) AS n ORDER BY n DESC, s.name LIMIT 1",
        "SELECT s.name, count(*) AS n FROM Person p JOIN HasInterest h ON h.src = p.key"
        " JOIN Interest i ON i.key = h.dst JOIN LivesIn l ON l.src = p.key"
        " JOIN CityIn ci ON ci.src = l.dst JOIN State s ON s.key = ci.dst"
        " JOIN StateIn si ON si.src = s.key JOIN Country o ON o.key = si.dst WHERE p.age BETWEEN $low AND $high"
        " AND o.name = $country AND i.name = $interest GROUP BY s.name ORDER BY n DESC, s.name LIMIT 1",
        {"low": 23, "high": 30, "country": "United States", "interest": "Photography"},
    ),
    Question(
        "two-hop follow paths",
        "match { $a follows $b $b follows $c } return { count($c) as n }",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*) AS n",
        "SELECT sum(i.n * o.n)::BIGINT AS n FROM (SELECT dst, count(*) AS n FROM Follows GROUP BY dst) i"
        " JOIN (SELECT src, count(*) AS n FROM Follows GROUP BY src) o ON i.dst = o.src",
    ),
    Question(
        "two-hop paths through the young to the older",
        "match { $a follows $b $b follows $c $b.age < $through $c.age > $above } return { count($c) as n }",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE b.age < $through AND c.age > $above"
        " RETURN count(*) AS n",
        "SELECT sum(i.n * o.n)::BIGINT AS n FROM (SELECT dst, count(*) AS n FROM Follows GROUP BY dst) i"
        " JOIN (SELECT f.src, count(*) AS n FROM Follows f JOIN Person c ON c.key = f.dst WHERE c.age > $above"
        " GROUP BY f.src) o ON i.dst = o.src JOIN Person b ON b.key = o.src WHERE b.age < $through",
        {"through": 50, "above": 25},
    ),
)


# -- engines -----------------------------------------------------------------------------------------------------------


class Peer(Protocol):
    """An engine with the network loaded."""

    name: str

    def close(self) -> None:
        """Let go of it."""

    def prepare(self, question: Question) -> Ask:
        """A function that asks the question once."""


SCHEMA = """
node Person { key: I64 @key
  name: String
  gender: String
  age: I32
  born: Date }
node City { key: I64 @key
  name: String }
node State { key: I64 @key
  name: String }
node Country { key: I64 @key
  name: String }
node Interest { key: I64 @key
  name: String }
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge HasInterest: Person -> Interest
edge CityIn: City -> State
edge StateIn: State -> Country
"""


class OmniGraph:
    """This engine, over Lance tables on disk."""

    name = "omnigraph"

    def __init__(self, tables: Tables, folder: Path) -> None:
        self.catalog = compile_schema(SCHEMA)
        self.store = TableStore(parse_location(str(folder / "omnigraph"), REAL), REAL)
        entries = {key: self._written(key, schema, tables) for key, schema in table_arrow_schemas(self.catalog).items()}
        self.snapshot = Snapshot("main", 1, None, entries)

    def _written(self, table_key: str, schema: pa.Schema, tables: Tables) -> TableEntry:
        kind, _, name = table_key.partition(":")
        rows, path = tables[name], table_path(table_key)
        ids = rows["key"].cast(pa.string()) if kind == "node" else pa.array([f"{n:08d}" for n in range(rows.num_rows)])
        columns = {
            each: rows[each].cast(pa.string()) if each in ("src", "dst") else rows[each] for each in rows.column_names
        }
        made = pa.table({"id": ids, **columns}).select(schema.names).cast(schema)
        table = create_table(self.store, path, schema, [made])
        declared = self.catalog.nodes[name] if kind == "node" else self.catalog.edges[name]
        specs = [IndexSpec(each.column, "btree", each.name) for each in table_indexes(declared) if each.kind == "btree"]
        done = commit_staged(stage_indexes(table, specs))
        return TableEntry(table_key, path, done.version, None, rows.num_rows)

    def prepare(self, question: Question) -> Ask:
        """The query, parsed and checked."""
        kinds = {"str": "String", "int": "I64"}
        declared = ", ".join(f"${name}: {kinds[type(value).__name__]}" for name, value in question.params.items())
        query = parse_queries(f"query q({declared}) {{ {question.gq} }}").queries[0]
        checked: Any = check_query(query, self.catalog)
        params = bind_params(checked, question.params)

        def ask() -> list[tuple[Any, ...]]:
            result = PreparedQuery(self.snapshot, self.store, self.catalog, checked, params, world=REAL).run()
            return [tuple(row.values()) for row in result.to_arrow().to_pylist()]

        return lambda: timed(ask)

    def close(self) -> None:
        """Nothing is held."""


class DuckDb:
    """DuckDB over its own tables, without indexes, which its documentation advises against for joins and groups."""

    name = "duckdb"

    def __init__(self, tables: Tables, folder: Path) -> None:
        self.connection = duckdb.connect(str(folder / "peer.duckdb"))
        for name, rows in tables.items():
            self.connection.register("given", rows)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self.connection.unregister("given")

    def prepare(self, question: Question) -> Ask:
        """A prepared statement with its values."""
        self.connection.execute(f"PREPARE asked AS {question.sql}")
        given = ", ".join(f"{name} := {_sql_value(value)}" for name, value in question.params.items())
        execute = f"EXECUTE asked({given})" if given else "EXECUTE asked"
        return lambda: timed(lambda: self.connection.execute(execute).fetchall())

    def close(self) -> None:
        """Close the database."""
        self.connection.close()


def _sql_value(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class LanceGraph:
    """lance-graph: Cypher on DataFusion, over tables in memory. Values are written into the text."""

    name = "lance-graph"

    def __init__(self, tables: Tables) -> None:
        self.package = importlib.import_module("lance_graph")
        self.tables = tables
        config = self.package.GraphConfig.builder()
        for name, rows in tables.items():
            ends = "src" in rows.column_names
            config = config.with_relationship(name, "src", "dst") if ends else config.with_node_label(name, "key")
        self.config = config.build()

    def prepare(self, question: Question) -> Ask:
        """The query, parsed."""
        text = question.plain_cypher or question.cypher
        for name, value in question.params.items():
            text = text.replace(f"${name}", _sql_value(value))
        # It counts rows, and knows no entity to count.
        text = text.replace("count(p)", "count(*)")
        query = self.package.CypherQuery(text).with_config(self.config)

        def ask() -> list[tuple[Any, ...]]:
            return [tuple(row.values()) for row in query.execute(self.tables).to_pylist()]

        return lambda: timed(ask)

    def close(self) -> None:
        """Nothing is held."""


class Cypher:
    """kuzu, or ladybug that was forked from it, in a process of its own: they cannot live in one."""

    def __init__(self, module: str, tables: Tables, folder: Path) -> None:
        self.name = module
        for name, rows in tables.items():
            pq.write_table(rows, folder / f"{name}.parquet")
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=answer_cypher, args=(module, folder, theirs), daemon=True)
        self.process.start()
        if (problem := self.pipe.recv()) is not None:
            raise ImportError(problem)

    def prepare(self, question: Question) -> Ask:
        """The question, to be asked in the other process; the time is measured there."""
        self.pipe.send((question.cypher, question.params))

        def ask() -> Answer:
            self.pipe.send("again")
            found: Answer = self.pipe.recv()
            return found

        return ask

    def close(self) -> None:
        """End the other process."""
        self.pipe.send(None)
        self.process.join(10)


def answer_cypher(module: str, folder: Path, pipe: Connection) -> None:
    """Load the network, then answer questions until the parent is gone."""
    try:
        package = importlib.import_module(module)
        connection = package.Connection(package.Database(str(folder / module)))
    except (ImportError, RuntimeError) as error:
        pipe.send(str(error))
        return
    _load_cypher(connection, folder)
    pipe.send(None)
    current: list[Any] = []

    def ask() -> list[tuple[Any, ...]]:
        return _all_rows(connection.execute(*current))

    while (asked := pipe.recv()) is not None:
        if asked == "again":
            pipe.send(timed(ask))
        else:
            current[:] = [connection.prepare(asked[0]), asked[1]]


def _load_cypher(connection: Any, folder: Path) -> None:
    kinds = {"int64": "INT64", "int32": "INT32", "string": "STRING", "large_string": "STRING", "date32[day]": "DATE"}
    for name in ("Person", "City", "State", "Country", "Interest"):
        columns = ", ".join(
            f"{each.name} {kinds[str(each.type)]}" for each in pq.read_schema(folder / f"{name}.parquet")
        )
        connection.execute(f"CREATE NODE TABLE {name}({columns}, PRIMARY KEY(key))")
        connection.execute(f"COPY {name} FROM '{folder / name}.parquet'")
    ends = {"Follows": "Person TO Person", "LivesIn": "Person TO City", "HasInterest": "Person TO Interest",
            "CityIn": "City TO State", "StateIn": "State TO Country"}  # fmt: skip
    for name, between in ends.items():
        connection.execute(f"CREATE REL TABLE {name}(FROM {between})")
        connection.execute(f"COPY {name} FROM '{folder / name}.parquet'")


def _all_rows(answer: Any) -> list[tuple[Any, ...]]:
    rows = []
    while answer.has_next():
        rows.append(tuple(answer.get_next()))
    return rows


def peers(tables: Tables, folder: Path) -> list[Peer]:
    """Every engine that is installed, this one first."""
    found: list[Peer] = [OmniGraph(tables, folder), DuckDb(tables, folder)]
    for module in ("kuzu", "ladybug"):
        try:
            found.append(Cypher(module, tables, folder))
        except ImportError as error:
            print(f"without {module}: {error}")
    try:
        found.append(LanceGraph(tables))
    except ImportError as error:
        print(f"without lance-graph: {error}")
    return found


# -- measuring ---------------------------------------------------------------------------------------------------------


def timed(ask: Callable[[], list[tuple[Any, ...]]]) -> Answer:
    """The rows and the milliseconds they took."""
    begun = time.perf_counter()
    rows = ask()
    return rows, (time.perf_counter() - begun) * 1e3


def measure(asks: Sequence[Ask], firsts: Sequence[float], runs: int) -> list[float]:
    """The median of each in milliseconds. Rounds go through all of them, so that noise falls on everybody.

    Who took longer than `PATIENCE` the first time is asked once more, and no more.
    """
    times: list[list[float]] = [[] for _ in asks]
    patient = [first <= PATIENCE for first in firsts]
    for ask, warms_up in zip(asks, patient, strict=True):
        for _ in range(WARM_UP if warms_up else 0):
            ask()
    for number in range(runs):
        for ask, taken, again in zip(asks, times, patient, strict=True):
            if again or not number:
                taken.append(ask()[1])
    return [statistics.median(each) for each in times]


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that compare equal when only the last digits of floats differ."""
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows]


def main() -> int:
    """Read the command line, run, and tell by the exit code whether every answer was right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--persons", type=int, default=10_000, help="100000 is the full size")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        return run(given.persons, given.runs, Path(folder))


def run(persons: int, runs: int, folder: Path) -> int:
    """Print the table; the number of wrong answers as an exit code."""
    begun = time.perf_counter()
    tables = generate(persons)
    engines = peers(tables, folder)
    print(
        f"{persons:,} persons, {tables['Follows'].num_rows:,} follows; ready after {time.perf_counter() - begun:.1f} s"
    )
    names = "".join(f"{each.name:>12}" for each in engines)
    print(f"{'milliseconds':45}{'cold:':>8}{names}{'ratio':>7}{'warm:':>8}{names}{'ratio':>7}")
    wrong, cold_ratios, ratios = 0, [], []
    for question in QUESTIONS:
        asks = [each.prepare(question) for each in engines]
        firsts = [ask() for ask in asks]
        answers = [rounded(rows) for rows, _ in firsts]
        for engine, answer in zip(engines, answers, strict=True):
            if answer != answers[1]:
                wrong += 1
                print(f"WRONG: {engine.name} on {question.title}: {answer}, and duckdb has {answers[1]}")
        cold, warm = [each for _, each in firsts], measure(asks, [each for _, each in firsts], runs)
        cold_ratios.append(cold[0] / min(cold[1:]))
        ratios.append(warm[0] / min(warm[1:]))
        shown = [
            f"{'':8}" + "".join(f"{each:12.2f}" for each in times) + f"{ratio:7.2f}"
            for times, ratio in ((cold, cold_ratios[-1]), (warm, ratios[-1]))
        ]
        print(f"{question.title:45}{''.join(shown)}", flush=True)
    for each in engines:
        each.close()
    for kind, several in (("cold", cold_ratios), ("warm", ratios)):
        mean = math.exp(statistics.fmean(math.log(each) for each in several))
        print(f"{kind}: geometric mean of ours over the best peer {mean:.2f}, the worst {max(several):.2f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

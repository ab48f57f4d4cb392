"""Search among documents: by vector, by words, by both, and by both with one hop; this engine and lancedb, in one run.

    python benchmarks/search.py [--documents 200000] [--questions 40] [--rounds 5] [--folder DIR]

The same documents (256 numbers and a text each), the same questions, both on local disk, both with their indexes built:
ours by `ensure_indices()`, lancedb's by its own defaults (IVF_PQ for vectors, FTS for texts, BTREE for edges), asked as
it comes and refined. Recall is of the ten that an exact search finds. Each engine is asked all questions once
before it counts; rounds take turns. Times are medians over all questions and rounds, and their 95th percentile.
lancedb has no traversal: one hop there is two more lookups, written by hand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

import omnigraph as og

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Ids = list[str]

SEED = 20_260_102
DIMENSIONS, DIRECTIONS, CENTRES, TOPICS = 256, 32, 400, 500
WORDS, WORDS_PER_TEXT = 20_000, 30
WANTED = 10
SCHEMA = f"""
node Doc {{ slug: String @key
  body: String @index
  embedding: Vector({DIMENSIONS}) @index }}
node Topic {{ name: String @key }}
edge About: Doc -> Topic
"""
VECTOR = "match { $d: Doc } return { $d.slug } order { nearest($d.embedding, $v) } limit 10"
TEXT = "match { $d: Doc } return { $d.slug } order { bm25($d.body, $w) } limit 10"
HYBRID = "match { $d: Doc } return { $d.slug } order { rrf(nearest($d.embedding, $v), bm25($d.body, $w)) } limit 10"
HOP = (
    "match { $d: Doc $d about $t } return { $d.slug, $t.name }"
    " order { rrf(nearest($d.embedding, $v), bm25($d.body, $w)) } limit 10"
)
TASKS = ("vector", "text", "hybrid", "hybrid + one hop")


# -- data --------------------------------------------------------------------------------------------------------------


class Library:
    """The documents, and the questions that are asked about them."""

    def __init__(self, documents: int, questions: int) -> None:
        random = np.random.default_rng(SEED)
        # As embeddings are: far fewer directions that matter than numbers, and clusters that overlap.
        centres = random.standard_normal((CENTRES, DIRECTIONS))
        inner = centres[random.integers(0, CENTRES, documents)] + random.standard_normal((documents, DIRECTIONS))
        spread = random.standard_normal((DIRECTIONS, DIMENSIONS)) / np.sqrt(DIRECTIONS)
        noise = random.standard_normal((documents, DIMENSIONS)).astype(np.float32)
        self.vectors = (inner @ spread).astype(np.float32) + np.float32(0.1) * noise
        self.slugs = [f"d{number:07d}" for number in range(documents)]
        self.bodies = [_text(random) for _ in range(documents)]
        self.topics = random.integers(0, TOPICS, documents)
        near = random.integers(0, documents, questions)
        blur = random.standard_normal((questions, DIMENSIONS)).astype(np.float32)
        self.asked_vectors = self.vectors[near] + np.float32(0.1) * blur
        self.asked_words = [" ".join(random.choice(self.bodies[at].split(), 3, replace=False)) for at in near]

    def exact(self, number: int) -> set[str]:
        """The nearest ten of one question, found by looking at all."""
        distances = np.square(self.vectors - self.asked_vectors[number]).sum(axis=1)
        return {self.slugs[at] for at in np.argpartition(distances, WANTED)[:WANTED]}

    def documents(self, vector_name: str = "embedding") -> pa.Table:
        """All documents as a table."""
        flat = pa.array(self.vectors.ravel())
        return pa.table({
            "slug": self.slugs, "body": self.bodies,
            vector_name: pa.FixedSizeListArray.from_arrays(flat, DIMENSIONS),
        })  # fmt: skip

    def edges(self) -> pa.Table:
        """One topic for each document."""
        return pa.table({"from": self.slugs, "to": [f"t{each:03d}" for each in self.topics]})


def _text(random: np.random.Generator) -> str:
    """Common words are very common, as in any language."""
    numbers = np.minimum(random.zipf(1.15, WORDS_PER_TEXT), WORDS)
    return " ".join(f"w{number:05d}x" for number in numbers)


# -- engines -----------------------------------------------------------------------------------------------------------


class Engine(Protocol):
    """An engine with the documents loaded and indexed."""

    name: str

    def ask(self, task: str, vector: Any, words: str) -> Ids:
        """The slugs that it finds, the best first."""


class OmniGraph:
    """This engine: a graph on disk, asked through `Graph.query`."""

    name = "omnigraph"

    def __init__(self, library: Library, folder: Path) -> None:
        self.graph = og.init(folder / "graph.omni", schema=SCHEMA)
        topics = pa.table({"name": [f"t{number:03d}" for number in range(TOPICS)]})
        self.graph.load({"Doc": library.documents(), "Topic": topics, "About": library.edges()}, mode="overwrite")
        self.graph.ensure_indices()
        bodies = {"vector": VECTOR, "text": TEXT, "hybrid": HYBRID, "hybrid + one hop": HOP}
        given = {"vector": f"$v: Vector({DIMENSIONS})", "text": "$w: String"}
        both = f"{given['vector']}, {given['text']}"
        self.queries = {task: f"query q({given.get(task, both)}) {{ {body} }}" for task, body in bodies.items()}

    def ask(self, task: str, vector: Any, words: str) -> Ids:
        """One query."""
        given = {"v": vector} if task == "vector" else {"w": words} if task == "text" else {"v": vector, "w": words}
        found = self.graph.query(self.queries[task], given).to_arrow()
        return found.column("d.slug").to_pylist()  # type: ignore[return-value]


class LanceDb:
    """lancedb over its own tables. `refine` looks at so many times more candidates with their whole vectors."""

    def __init__(self, library: Library, folder: Path, refine: int | None) -> None:
        import lancedb
        from lancedb.index import FTS, BTree, IvfPq
        from lancedb.rerankers import RRFReranker

        self.name = "lancedb" if refine is None else f"lancedb, refine {refine}"
        self.refine = refine
        database = lancedb.connect(str(folder / "lancedb"))
        if (folder / "lancedb" / "docs.lance").exists():
            self.docs, self.about = database.open_table("docs"), database.open_table("about")
        else:
            self.docs = database.create_table("docs", library.documents("vector"))
            self.about = database.create_table("about", library.edges())
            self.docs.create_index("vector", config=IvfPq(distance_type="l2"))
            self.docs.create_index("body", config=FTS())
            self.about.create_index("from", config=BTree())
        self.fusion = RRFReranker()

    def ask(self, task: str, vector: Any, words: str) -> Ids:
        """One query; for a hop, another for the edges of what it found."""
        if task == "text":
            found = self.docs.search(words, query_type="fts")
        elif task == "vector":
            found = self._refined(self.docs.search(vector))
        else:
            both = self.docs.search(query_type="hybrid").vector(vector).text(words)
            found = self._refined(both).rerank(self.fusion)
        slugs: Ids = found.select(["slug"]).limit(WANTED).to_arrow().column("slug").to_pylist()
        if task != "hybrid + one hop":
            return slugs
        listed = ", ".join(f"'{each}'" for each in slugs)
        edges = self.about.search().where(f"`from` in ({listed})").limit(WANTED).to_arrow()
        topics = dict(zip(edges.column("from").to_pylist(), edges.column("to").to_pylist(), strict=True))
        return [each for each in slugs if each in topics]

    def _refined(self, search: Any) -> Any:
        return search if self.refine is None else search.refine_factor(self.refine)


def engines(library: Library, folder: Path) -> list[Engine]:
    """This engine first, then lancedb if it is installed, as it comes and refined."""
    found: list[Engine] = [OmniGraph(library, folder)]
    try:
        found += [LanceDb(library, folder, None), LanceDb(library, folder, 5)]
    except ImportError as error:
        print(f"without lancedb: {error}")
    return found


# -- measuring ---------------------------------------------------------------------------------------------------------


def timed(ask: Callable[[], Ids]) -> tuple[Ids, float]:
    """The answer and the milliseconds it took."""
    begun = time.perf_counter()
    found = ask()
    return found, (time.perf_counter() - begun) * 1e3


def measured(engine: Engine, task: str, library: Library) -> tuple[list[Ids], list[float]]:
    """All answers to one task, and their times."""
    asked = zip(library.asked_vectors, library.asked_words, strict=True)
    both = [timed(lambda v=vector, w=words: engine.ask(task, v, w)) for vector, words in asked]
    return [each for each, _ in both], [each for _, each in both]


def first_time(engine: Engine, task: str, library: Library) -> float:
    """The milliseconds of the first question."""
    return timed(lambda: engine.ask(task, library.asked_vectors[0], library.asked_words[0]))[1]


def recall(answers: Sequence[Ids], exact: Sequence[set[str]]) -> float:
    """Which part of what an exact search finds was found."""
    return statistics.fmean(len(known & set(each)) / len(known) for each, known in zip(answers, exact, strict=True))


def run(library: Library, rounds: int, folder: Path) -> int:
    """Print the table; 1 when recall or latency is worse than the goal."""
    begun = time.perf_counter()
    several = engines(library, folder)
    print(f"{len(library.slugs):,} documents; ready after {time.perf_counter() - begun:.0f} s")
    exact = [library.exact(number) for number in range(len(library.asked_words))]
    print(f"{'':20}{'':22}{'recall@10':>10}{'median ms':>11}{'p95 ms':>9}{'first ms':>10}{'ratio':>8}")
    missed = 0
    for task in TASKS:
        # The first question of its kind to an open engine: files, indexes and plans are cold.
        first = [first_time(each, task, library) for each in several]
        times: list[list[float]] = [[] for _ in several]
        answers: list[list[Ids]] = [measured(each, task, library)[0] for each in several]
        for _ in range(rounds):
            for number, each in enumerate(several):
                times[number] += measured(each, task, library)[1]
        medians = [statistics.median(each) for each in times]
        for number, each in enumerate(several):
            found = recall(answers[number], exact) if task == "vector" else None
            p95 = statistics.quantiles(times[number], n=20)[-1]
            ratio = medians[0] / medians[number] if number else 1.0
            shown = "" if found is None else f"{found:.3f}"
            print(
                f"{task:20}{each.name:22}{shown:>10}{medians[number]:>11.2f}{p95:>9.2f}{first[number]:>10.1f}{ratio:>8.2f}"
            )
        if len(several) > 1:
            missed += medians[0] > 1.1 * medians[1]
            same = [len(set(a) & set(b)) / WANTED for a, b in zip(answers[0], answers[-1], strict=True)]
            print(f"{'':20}of ten, both engines find the same {10 * statistics.fmean(same):.1f}")
    return 1 if missed else 0


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000, help="200000 is the full size")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        return run(Library(given.documents, given.questions), given.rounds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())

"""Random small graphs and random queries over them, made from a seed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random  # noqa: TID251 - seeded, so that a failure can be repeated

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key
  age: I32?
  score: F64?
  rank: F32?
  active: Bool?
  tags: [String]?
  born: Date?
  seen: DateTime?
  big: I64?
  kind: enum(a, b, c)? }
node Company implements Named { name: String @key
  size: U32? }
edge Knows: Person -> Person { since: Date?
  weight: F64? }
edge WorksAt: Person -> Company { role: String? }
edge Owns: Company -> Company
"""

_KEYS = "abcdef"
_FIELDS = ["age: 20", "active: true", "name: $t", "score: 1.5", "rank: 2.5", 'kind: "a"', 'tags: "x"']
_MOMENT = 'datetime("2024-01-01T01:30:00.250Z")'


def graph(random: Random) -> dict[str, list[dict[str, Any]]]:
    """Nodes of both types share keys; edges may be loops, parallel and in cycles."""
    people = [_person(random, key) for key in _KEYS[: random.randint(1, 6)]]
    companies = [
        {"id": k, "name": k, "size": _maybe(random, random.randint(0, 9))} for k in _KEYS[: random.randint(1, 4)]
    ]
    return {
        "Person": people,
        "Company": companies,
        "Knows": _edges(random, "k", people, people, 10, _knows),
        "WorksAt": _edges(random, "w", people, companies, 6, lambda r: {"role": _maybe(r, r.choice(["boss", "dev"]))}),
        "Owns": _edges(random, "o", companies, companies, 5, lambda _: {}),
    }


def _person(random: Random, key: str) -> dict[str, Any]:
    return {
        "id": key,
        "name": key,
        "age": _maybe(random, random.randint(18, 22)),
        "score": _maybe(random, random.choice([0.0, 0.5, 1.5, -2.25])),
        "rank": _maybe(random, random.choice([0.5, 1.0, 2.5])),
        "active": _maybe(random, random.random() < 0.5),
        "tags": _maybe(random, random.sample(["x", "y", "z"], random.randint(0, 3))),
        "born": _maybe(random, dt.date(2000, 1, random.randint(1, 4))),
        "seen": _maybe(random, dt.datetime(2024, 1, 1, random.randint(0, 3), 30, 0, 250_000, tzinfo=dt.UTC)),
        "big": _maybe(random, random.choice([2**53 + 1, -(2**62), 7])),
        "kind": _maybe(random, random.choice(["a", "b", "c"])),
    }


def _knows(random: Random) -> dict[str, Any]:
    since = _maybe(random, dt.date(2020, 1, random.randint(1, 3)))
    return {"since": since, "weight": _maybe(random, random.choice([0.5, 1.0]))}


def _edges(random: Random, prefix: str, starts: Any, ends: Any, most: int, properties: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{prefix}{n}",
            "src": random.choice(starts)["id"],
            "dst": random.choice(ends)["id"],
            **properties(random),
        }
        for n in range(random.randint(0, most))
    ]


def _maybe(random: Random, value: Any) -> Any:
    return None if random.random() < 0.25 else value


# -- queries -----------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes one query; knows which variables there are and of which type."""

    random: Random
    nodes: dict[str, str] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    optional: dict[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    counter: int = 0

    def query(self) -> str:
        match = self.block(depth=0)
        return f"query q($n: I32?, $t: String?, $l: [String], $k: I64) {{ match {{ {match} }} {self.result()} }}"

    def name(self) -> str:
        self.counter += 1
        return f"v{self.counter}"

    # -- match ---------------------------------------------------------------------------------------------------------

    def block(self, depth: int) -> str:
        parts = [self.binding() for _ in range(self.random.choice([1, 1, 1, 2] if depth == 0 else [0, 0, 1]))]
        parts += [self.traversal() for _ in range(self.random.choice([0, 1, 1, 2, 3] if depth == 0 else [1, 1, 2]))]
        if depth == 0 and self.random.random() < 0.15:
            parts.append(self.path())
        if depth == 0 and self.random.random() < 0.3:
            parts.append(self.inner("optional", keep=True))
        parts += [self.condition() for _ in range(self.random.choice([0, 0, 1, 2]))]
        if depth < 2 and self.random.random() < 0.35:
            parts.append(self.inner("not", keep=False))
        return " ".join(parts)

    def inner(self, word: str, *, keep: bool) -> str:
        before, edges = dict(self.nodes), dict(self.edges)
        anchor = self.random.choice(list(before))
        text = f"{self.traversal(anchor)} {self.block(depth=1) if self.random.random() < 0.4 else ''}"
        if self.random.random() < 0.4:
            text += f" {self.condition()}"
        if keep:
            self.optional.update({n: t for n, t in self.nodes.items() if n not in before})
        self.nodes, self.edges = before, edges
        return f"{word} {{ {text} }}"

    def binding(self) -> str:
        kind = self.random.choice(["Person", "Person", "Company", "Named"])
        name = self.name()
        self.nodes[name] = kind
        if kind == "Person" and self.random.random() < 0.4:
            return f"${name}: Person {{ {self.random.choice(_FIELDS)} }}"
        return f"${name}: {kind}"

    def traversal(self, anchor: str | None = None) -> str:
        people = [n for n, t in self.nodes.items() if t == "Person"]
        companies = [n for n, t in self.nodes.items() if t == "Company"]
        if anchor is not None:
            people = [anchor] if self.nodes.get(anchor) in ("Person", "Named") else []
            companies = [anchor] if self.nodes.get(anchor) == "Company" else []
        options = []
        if people:
            options += ["knows", "knows", "<knows>", "worksAt", "known"]
        if companies:
            options += ["owns", "employs", "<owns>"]
        if not options:
            return self._free()
        which = self.random.choice(options)
        if which in ("knows", "<knows>", "known"):
            return self._step(self.random.choice(people), which, "Person")
        if which == "worksAt":
            return self._step(self.random.choice(people), "worksAt", "Company")
        if which == "employs":
            return self._step(self.random.choice(companies), "employs", "Person")
        return self._step(self.random.choice(companies), which, "Company")

    def _free(self) -> str:
        a, b = self.name(), self.name()
        self.nodes.update({a: "Person", b: "Person"})
        return f"${a} knows ${b}"

    def _step(self, start: str, which: str, end_type: str) -> str:
        known = [n for n, t in self.nodes.items() if t == end_type]
        roll = self.random.random()
        if roll < 0.15:
            end = "_"
        elif roll < 0.3 and known:
            end = self.random.choice(known)
        else:
            end = self.name()
            self.nodes[end] = end_type
        edge = {"known": "knows", "employs": "worksAt"}.get(which, which)
        backwards = which in ("known", "employs")
        bounds, bind = "", ""
        if self.random.random() < 0.3:
            bounds = self.random.choice(["{1,2}", "{1,3}", "{2,2}", "{2,3}", "{1,}", "{3,}", "{2,}"])
        elif self.random.random() < 0.3:
            name = self.name()
            self.edges[name] = {"knows": "Knows", "<knows>": "Knows", "worksAt": "WorksAt"}.get(edge, "Owns")
            bind = f"${name}: "
        left, right = (end, start) if backwards else (start, end)
        return f"${left} {bind}{edge}{bounds} ${right}"

    def path(self) -> str:
        people = [n for n, t in self.nodes.items() if t == "Person"]
        if len(people) < 2:
            return ""
        a, b = self.random.sample(people, 2)
        name = self.name()
        self.paths.append(name)
        bounds = self.random.choice(["", "{1,2}", "{0,3}", "{2,4}"])
        return f"${name}: shortest(${a} {self.random.choice(['knows', '<knows>'])}{bounds} ${b})"

    # -- conditions ----------------------------------------------------------------------------------------------------

    def condition(self, depth: int = 0) -> str:
        roll = self.random.random()
        if depth < 2 and roll < 0.15:
            return f"({self.condition(depth + 1)} and {self.condition(depth + 1)})"
        if depth < 2 and roll < 0.3:
            return f"({self.condition(depth + 1)} or {self.condition(depth + 1)})"
        if depth < 2 and roll < 0.4:
            return f"(not {self.condition(depth + 1)})"
        return f"({self.simple()})"

    def simple(self) -> str:
        r, people = self.random, [n for n, t in self.nodes.items() if t == "Person"]
        named = list(self.nodes)
        knows = [n for n, t in self.edges.items() if t == "Knows"]
        op = r.choice(["=", "!=", "<", "<=", ">", ">="])
        letter, maybe_not = r.choice("abcdef"), r.choice(["", "not "])
        options = [f'${r.choice(named)}.name {op} "{letter}"', "$n = 20 or 1 = 1"]
        if people:
            p, q = r.choice(people), r.choice(people)
            some = r.choice(["age", "tags", "born", "seen", "active"])
            options += [
                f"${p}.age {op} {r.choice(['20', '20.5', '19', '$n'])}",
                f"${p}.age {op} ${q}.age",
                f"${p}.score {op} {r.choice(['0.5', '1', '-2.25'])}",
                f"${p}.rank {op} {r.choice(['0.5', '0.1', '2.5'])}",
                f"${p}.big {op} {r.choice(['9007199254740992.0', '9007199254740993', '7'])}",
                f"${p}.active = {r.choice(['true', 'false'])}",
                f"${p}.active",
                f'${p}.tags contains "{r.choice("xyz")}"',
                f'${p}.born {op} date("2000-01-02")',
                f"${p}.seen {op} {_MOMENT}",
                f"${p}.seen < now()",
                f"${p}.{some} is {maybe_not}null",
                f"${p}.name in $l",
                f"${p}.age {maybe_not}in [19, 20]",
                f"${p}.age + 1 {op} 21",
                f"${p}.age % 2 = 0",
                f"${p}.age / 2 {op} 10",
                f"${p} {r.choice(['=', '!='])} ${q}",
                f'${p}.kind {r.choice(["=", "!="])} "b"',
                f'${p}.name starts_with "a"',
                f"${p}.name contains $t",
                f"${p}.id = ${q}.name",
            ]
        if knows:
            e = r.choice(knows)
            options += [f'${e}.since > date("2020-01-01")', f"${e}.weight = 0.5", f"${e}.src = ${e}.dst"]
            options += [f"${e}.since is null"]
        if self.optional:
            name = r.choice(list(self.optional))
            options += [f"${name} is {maybe_not}null", f'${name}.name != "a"']
        return str(r.choice(options))

    # -- results -------------------------------------------------------------------------------------------------------

    def result(self) -> str:
        return self.aggregated() if self.random.random() < 0.5 else self.listed()

    def columns(self) -> list[str]:
        known = {**self.nodes, **self.optional}
        chosen = self.random.sample(list(known), self.random.randint(1, min(3, len(known))))
        made = [self._column(name, known[name]) for name in chosen]
        if self.edges and self.random.random() < 0.3:
            name = self.random.choice(list(self.edges))
            made.append(f"${name}.{self.random.choice(['id', 'src', 'dst'])}")
        if self.paths and self.random.random() < 0.7:
            made.append(f"${self.random.choice(self.paths)}.{self.random.choice(['length', 'nodes', 'edges'])}")
        return made

    def _column(self, name: str, kind: str) -> str:
        if self.random.random() < 0.3:
            return f"${name}"
        return f"${name}.{self.random.choice(self._properties(kind))}"

    def _properties(self, kind: str) -> list[str]:
        return ["name", "id", "age", "score", "born", "seen", "active"] if kind == "Person" else ["name", "id"]

    def listed(self) -> str:
        columns = self.columns()
        distinct = "distinct " if self.random.random() < 0.2 else ""
        text = f"return {distinct}{{ {', '.join(f'{c} as c{n}' for n, c in enumerate(columns))} }}"
        sortable = [n for n, c in enumerate(columns) if not c.endswith((".nodes", ".edges"))]
        if sortable and self.random.random() < 0.7:
            keys = self.random.sample(sortable, self.random.randint(1, len(sortable)))
            text += self.ordering(keys) + self.bounds()
        return text

    def ordering(self, keys: list[int]) -> str:
        made = [f"c{n} {self.random.choice(['', 'asc', 'desc'])}" for n in keys]
        return f" order {{ {', '.join(made)} }}"

    def bounds(self) -> str:
        limit = f" limit {self.random.choice(['3', '1', '$k'])}" if self.random.random() < 0.4 else ""
        return limit + (f" offset {self.random.choice(['1', '$k'])}" if self.random.random() < 0.2 else "")

    def aggregated(self) -> str:
        known = {**self.nodes, **self.optional}
        keys = [c for c in self.columns() if self.random.random() < 0.6 and not c.endswith((".nodes", ".edges"))]
        made = []
        for _ in range(self.random.randint(1, 3)):
            name = self.random.choice(list(known))
            distinct = "distinct " if self.random.random() < 0.2 else ""
            if known[name] == "Person" and self.random.random() < 0.6:
                function = self.random.choice(["sum", "avg", "min", "max", "count"])
                argument = self.random.choice(["age", "score", f"age + ${name}.age"])
                made.append(f"{function}({distinct}${name}.{argument})")
            else:
                made.append(f"count({distinct}${name}{self.random.choice(['', '.name'])})")
        columns = [*keys, *made]
        text = f"return {{ {', '.join(f'{c} as c{n}' for n, c in enumerate(columns))} }}"
        if self.random.random() < 0.2:
            text += f" having {{ count(${self.random.choice(list(known))}) > {self.random.randint(0, 3)} }}"
        if self.random.random() < 0.6:
            chosen = self.random.sample(range(len(columns)), self.random.randint(1, len(columns)))
            text += self.ordering(chosen)
        return text + (self.bounds() if keys else "")

"""Random schemas: texts that follow every rule, made of few names so that two of them often meet.

Hypothesis gives the randomness and the texts; the choices are made here, which is ten times faster than drawing each.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SCALARS = ["String", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime"]
NUMBERS = ["I32", "I64", "U32", "U64", "F32", "F64"]
DEFAULTS = {
    "String": ['"x"', "word", '""'],
    "Bool": ["true", '"false"'],
    "Date": ['"2026-01-31"'],
    "DateTime": ['"2026-01-31T12:00:00Z"'],
    **{key: ["0", "7", '"12"'] for key in NUMBERS},
}
INTERFACES = {"Aged": "age: I32? @index", "Named": 'name: String @description("n")'}
PATTERNS = ["^a", r"\\d+", "x|y", 'quo\\"te']
ENUM_VALUES = ["a", "b-c", "9", "D_e"]


def quoted(text: str) -> str:
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"')):
        text = text.replace(raw, escaped)
    return f'"{text}"'


texts = st.text(min_size=1, max_size=12).filter(lambda text: text.strip()).map(quoted)


class Maker:
    """Makes one schema. `rng` is a `random.Random`, `words` are quoted texts."""

    def __init__(self, rng: Any, words: list[str]) -> None:
        self.rng = rng
        self.words = words

    def maybe(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def some(self, them: list[str], *, least: int = 0) -> list[str]:
        return list(self.rng.sample(them, self.rng.randint(least, len(them))))

    def text(self) -> str:
        return str(self.rng.choice(self.words))

    def type(self) -> str:
        kinds = [
            self.rng.choice([*SCALARS, "Blob"]),
            f"[{self.rng.choice(SCALARS)}]",
            f"enum({', '.join(self.some(ENUM_VALUES, least=1))})",
            f"Vector({self.rng.randint(1, 5)})",
        ]
        return str(self.rng.choice(kinds)) + ("?" if self.maybe() else "")

    def annotations(self, kind: str) -> str:
        plain = kind.rstrip("?")
        words = [f"@description({self.text()})"] if self.maybe() else []
        if plain in SCALARS or plain.startswith("enum"):
            words += self.some(["@index", "@unique", "@index"])
        if plain in DEFAULTS and self.maybe():
            words.append(f"@default({self.rng.choice(DEFAULTS[plain])})")
        if self.maybe(0.2):
            words.append(f"@unit({self.text()}, scale={self.rng.randint(0, 9)}, about={self.text()})")
        self.rng.shuffle(words)
        return " ".join(words)

    def bounds(self) -> str:
        low, high = self.rng.randint(-9, 0), self.rng.randint(0, 9)
        large = self.rng.randint(-(10**25), 10**25)
        precise = f"{self.rng.uniform(-1, 1) * 10 ** self.rng.randint(-8, 30):.12f}"
        return str(self.rng.choice([f"{low}..{high}", f"{large}..", f"..{precise}", f"{precise}..", f"..{low}"]))

    def body(self, *, node: bool) -> list[str]:
        kinds = {name: self.type() for name in self.some(list("abcd"))}
        lines = [f"{name}: {kind} {self.annotations(kind)}" for name, kind in kinds.items()]
        fixed = {line.split(":")[0] for line in lines if "@default" in line}
        lines += self.tuples(kinds, node=node)
        for name, kind in kinds.items() if node else ():
            if kind.rstrip("?") in NUMBERS and name not in fixed and self.maybe():
                lines.append(f"@range({name}, {self.bounds()})")
            if kind.rstrip("?") == "String" and name not in fixed and self.maybe():
                lines.append(f'@check({name}, "{self.rng.choice(PATTERNS)}")')
        return lines

    def tuples(self, kinds: dict[str, str], *, node: bool) -> list[str]:
        ends = [] if node else ["src", "dst"]
        columns = [name for name, kind in kinds.items() if not kind.startswith("Blob")] + ends
        required = [name for name, kind in kinds.items() if not kind.endswith("?")]
        keys = [name for name in required if kinds[name] in SCALARS or kinds[name].startswith("enum")]
        names = self.some(["index", "unique", "index", "unique"]) if columns else []
        lines = [f"@{name}({', '.join(self.some(columns, least=1))})" for name in names]
        members = self.some(keys, least=1 if node and keys else 0) + ends
        if members and self.maybe():
            lines.append(f"@key({', '.join(members)})")
        return lines

    def schema(self) -> str:
        blocks = [f"interface {name} {{ {body} }}" for name, body in INTERFACES.items()]
        nodes = self.some(["Person", "Team", "Doc"])
        separator = self.rng.choice(["\n", ", ", " /* , */ ", " // x\n"])
        for name in nodes:
            implements = self.some(sorted(INTERFACES))
            promise = f"implements {', '.join(implements)}" if implements else ""
            about = f"@description({self.text()})" if self.maybe() else ""
            blocks.append(f"node {name} {about} {promise} {{ {separator.join(self.body(node=True))} }}")
        for name in self.some(["Knows", "WorksAt"]) if nodes else ():
            source, target = self.rng.choice(nodes), self.rng.choice(nodes)
            card = self.rng.choice(["", "@card(0..1)", "@card(1..)"])
            body = separator.join(self.body(node=False))
            blocks.append(f"edge {name}: {source} -> {target} {card} {{ {body} }}")
        self.rng.shuffle(blocks)
        return "\n".join(blocks)


schemas: st.SearchStrategy[str] = st.builds(
    lambda rng, words: Maker(rng, words).schema(),
    st.randoms(use_true_random=True),
    st.lists(texts, min_size=2, max_size=4),
)

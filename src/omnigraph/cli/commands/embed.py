"""`omnigraph embed`: vectors for the records of a file, before it is loaded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.frame.arguments import Json, read_text, refuse_together
from omnigraph.cli.frame.options import current
from omnigraph.cli.frame.output import say, say_json, working
from omnigraph.errors import InvalidInput

if TYPE_CHECKING:
    from omnigraph.embeddings.files import Mode, Selection, Specification

_BUILT = "./build/seed.embedded.jsonl"


def embed(
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="MANIFEST", help="A YAML file that names input, output and types.")
    ] = None,
    input_: Annotated[str | None, typer.Option("--input", metavar="FILE", help="Graph records, JSONL.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", metavar="FILE", help="The file to write the records to.")
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="FILE", help="The types that have vectors, and their text fields: JSON."),
    ] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove the vectors instead.")] = False,
    reembed_all: Annotated[bool, typer.Option("--reembed-all", help="Compute every vector again.")] = False,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only records of this type; may be repeated.")
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option("--select", metavar="[TYPE:]FIELD=VALUE", help="Only records with this value; may be repeated."),
    ] = None,
    json: Json = False,
) -> None:
    """Compute vectors for the records of a file that have none. Environment variables select the provider.

    $ omnigraph embed --input docs.jsonl --output docs.embedded.jsonl --spec spec.json
    $ omnigraph embed --seed seed.yaml --type Document --reembed-all
    """
    from omnigraph.embeddings.embedder import from_environment
    from omnigraph.embeddings.files import FileEmbedding
    from omnigraph.embeddings.providers import Mock
    from omnigraph.world import REAL

    refuse_together(clean=clean, reembed_all=reembed_all)
    source, target, wanted = _manifest(seed) if seed is not None else _files(input_, output, spec)
    if seed is not None and (input_ or output or spec):
        current().fail("--seed names the files itself: leave --input, --output and --spec out.")
    selection = _selection(types or [], select or [])
    mode: Mode = "fill_missing"
    if clean or reembed_all:
        mode = "clean" if clean else "reembed_all"
    elif types or select:
        mode = "reembed_selected"
    from omnigraph.embeddings.embedder import Embeddings

    # Taking vectors out asks nobody for any.
    embeddings = Embeddings(Mock()) if clean else from_environment(REAL)
    with working("embedding"):
        done = FileEmbedding(source, target, wanted, mode, embeddings, REAL, selection).run()
    if json:
        say_json(done.to_json())
        return
    say(
        f"embedded {done.embedded_records} and cleaned {done.cleaned_records} of {done.records} records "
        f"from {done.input} to {done.output} ({done.mode}, {done.dimension} dimensions, {done.model})"
    )


def _files(input_: str | None, output: str | None, spec: str | None) -> "tuple[Path, Path, Specification]":
    import json

    from omnigraph.embeddings.files import read_specification

    if input_ is None or output is None or spec is None:
        current().fail("give --seed, or --input, --output and --spec.")
    try:
        held = json.loads(read_text(spec, "specification"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{spec} is not JSON: {error}") from error
    return _existing(Path(input_)), Path(output), read_specification(held, spec)


def _manifest(name: str) -> "tuple[Path, Path, Specification]":
    import yaml

    from omnigraph.embeddings.files import read_specification

    try:
        held: Any = yaml.safe_load(read_text(name, "seed manifest")) or {}
        sources, artifacts = held.get("sources") or {}, held.get("artifacts") or {}
        source = sources.get("raw_seed") or (held.get("seed") or {})["data"]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{name} is no seed manifest: it names its records in `sources: {{raw_seed: …}}`."
        ) from error
    root = Path(name).parent
    target = root / (artifacts.get("embedded_seed") or _BUILT)
    return _existing(root / source), target, read_specification(held.get("embeddings"), name)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInput(f"the input {path} cannot be read: there is no such file.")
    return path


def _selection(types: list[str], select: list[str]) -> "Selection":
    from omnigraph.embeddings.files import Selection

    values = []
    for each in select:
        name, found, value = each.partition("=")
        kind, of_type, field = name.rpartition(":")
        if not found or not field:
            current().fail(f"--select {each}: write [TYPE:]FIELD=VALUE.")
        values.append((kind if of_type else None, field, value))
    return Selection(tuple(types), tuple(values))

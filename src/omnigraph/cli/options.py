"""The options that every command takes, before or after its name, and the command classes that give it to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import click
import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from omnigraph.cli.capabilities import FLAGS, Flag, applies, asks_for_consent, echoes_its_target, refuse_misplaced

if TYPE_CHECKING:
    from collections.abc import Iterator

PANEL = "Scope and global options"
_KEY = "omnigraph.given."
_FLAGS_WITH_VALUES = {
    "store": ("URI", "The graph's storage: a path, file://, s3://, gs:// or az://."),
    "profile": ("NAME", "A named scope of the configuration; else OMNIGRAPH_PROFILE."),
    "cluster": ("DIR|URI", "A cluster: its name in the configuration, its directory or its storage root."),
    "graph": ("ID", "One graph of a cluster or server."),
    "server": ("NAME|URL", "A server. Not available: this program works on stores directly."),
    "as": ("ACTOR", "The author of what is written; else operator.actor of the configuration."),
}


@dataclass(frozen=True)
class Given:
    """The global options of this run."""

    server: str | None = None
    cluster: str | None = None
    graph: str | None = None
    store: str | None = None
    actor: str | None = None
    profile: str | None = None
    yes: bool = False
    quiet: bool = False
    debug: bool = False

    def flag(self, flag: Flag) -> str | None:
        """The value of a scope flag."""
        return cast("str | None", getattr(self, "actor" if flag == "as" else flag))


def given() -> Given:
    """What was given so far in this run; a flag after the command's name wins over one before it."""
    meta = click.get_current_context().meta
    names = ("server", "cluster", "graph", "store", "profile", "yes", "quiet", "debug")
    found = {name: meta[_KEY + name] for name in names if _KEY + name in meta}
    return Given(actor=meta.get(_KEY + "as"), **found)


def label_of(ctx: click.Context) -> str:
    """A command's words without the program's name: `branch create`."""
    words: list[str] = []
    at: click.Context | None = ctx
    while at is not None and at.parent is not None:
        words.insert(0, at.command.name or "")
        at = at.parent
    return " ".join(words)


class Command(TyperCommand):
    """A command that takes the global options, shows those that it can use, and refuses the others."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, then the global ones that it does not define itself."""
        own = super().get_params(ctx)
        taken = {option for each in own for option in each.opts}
        return [*own, *(each for each in _globals(label_of(ctx)) if not taken & set(each.opts))]

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless a flag was given that means nothing here."""
        refuse_misplaced(label_of(ctx), given())
        return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands; the global options may stand before the command's name."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The global options, shown at the top only."""
        return [*super().get_params(ctx), *_globals(None if ctx.parent is None else "")]


def _globals(label: str | None) -> Iterator[TyperOption]:
    """The global options: all shown for the program itself (None), else those that mean something to the command."""
    for name, (metavar, text) in _FLAGS_WITH_VALUES.items():
        shown = label is None or (label != "" and applies(cast("Flag", name), label))
        yield _option(name, text, metavar=metavar, shown=shown and name != "server")
    yield _option("yes", "Consent to destroying something that is not on this machine.", shown=_shown(label, "yes"))
    yield _option("quiet", "Do not say on stderr where is written.", shown=_shown(label, "quiet"))
    yield _option("debug", "Show tracebacks.", shown=label is None)
    yield TyperOption(
        param_decls=["-v", "--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version.",
        hidden=label is not None,
        rich_help_panel=PANEL,
    )


def _shown(label: str | None, name: str) -> bool:
    if label is None:
        return True
    return asks_for_consent(label) if name == "yes" else echoes_its_target(label)


def _option(name: str, text: str, *, shown: bool, metavar: str | None = None) -> TyperOption:
    return TyperOption(
        param_decls=[f"--{name}", f"_{name}"],
        type=bool if metavar is None else str,
        is_flag=metavar is None,
        metavar=metavar,
        expose_value=False,
        callback=_remember,
        help=text,
        hidden=not shown,
        rich_help_panel=PANEL,
    )


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> object:
    if value:
        ctx.meta[_KEY + (param.name or "").removeprefix("_")] = value
    return value


def _print_version(ctx: click.Context, _param: click.Parameter, value: object) -> object:
    if not value or ctx.resilient_parsing:
        return value
    from omnigraph import __version__

    typer.echo(f"omnigraph {__version__}")
    raise typer.Exit


assert set(_FLAGS_WITH_VALUES) == set(FLAGS)

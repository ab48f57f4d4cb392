"""The options that every command accepts, before or after its name, and the command classes that add them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import typer
from typer._click.exceptions import UsageError
from typer._click.globals import get_current_context
from typer.core import TyperCommand, TyperGroup, TyperOption

from omnigraph.cli.frame.capabilities import (
    FLAGS,
    Flag,
    asks_for_consent,
    echoes_its_target,
    is_offered,
    refuse_misplaced,
)
from omnigraph.cli.frame.help import (
    lines_about,
    usage_arguments,
    write_commands,
    write_examples,
    write_parameters,
    write_prose,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    # typer carries its own copy of click and names these types nowhere else.
    from typer._click import Context, HelpFormatter, Parameter

PANEL = "Scope and global options"
# The context key for the name of the file that the query came from.
SOURCE_NAME = "omnigraph.source_name"
_KEY = "omnigraph.given."
_FLAGS_WITH_VALUES = {
    "store": ("URI", "The graph's storage: a path, file://, s3://, gs:// or az://."),
    "profile": ("NAME", "A profile of the configuration; default: OMNIGRAPH_PROFILE."),
    "cluster": ("DIR|URI", "A cluster: its name in the configuration, its directory or its storage root."),
    "graph": ("ID", "One graph of a cluster or server."),
    "server": ("NAME|URL", "A server. Not available: this program works on stores directly."),
    "as": ("ACTOR", "The author of commits; default: operator.actor of the configuration."),
}
_SWITCHES = {
    "yes": "Confirm a destructive operation on a remote graph.",
    "quiet": "Do not print the graph that is written to on stderr.",
    "debug": "Show tracebacks.",
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


def current() -> Context:
    """The context of the running command."""
    return get_current_context()


def given() -> Given:
    """The global options given so far in this run; a flag after the command's name wins over one before it."""
    meta = current().meta
    names = ("server", "cluster", "graph", "store", "profile", "yes", "quiet", "debug")
    found = {name: meta[_KEY + name] for name in names if _KEY + name in meta}
    return Given(actor=meta.get(_KEY + "as"), **found)


def label_of(ctx: Context) -> str:
    """The name of a command without the program's name: `branch create`."""
    names: list[str] = []
    at: Context | None = ctx
    while at is not None and at.parent is not None:
        names.insert(0, at.command.name or "")
        at = at.parent
    return " ".join(names)


def refuse_repeated(command: TyperCommand | TyperGroup, ctx: Context, args: list[str]) -> None:
    """Raise `UsageError` for an option that has one value and is given twice: the parser would take the last one."""
    if ctx.resilient_parsing:
        return
    _, _, given_in_order = command.make_parser(ctx).parse_args(args=list(args))
    seen: set[str] = set()
    for each in given_in_order:
        if not isinstance(each, TyperOption) or each.multiple or each.is_flag or each.count:
            continue
        if each.opts[0] in seen:
            raise UsageError(f"{each.opts[0]} is given more than once, and takes one value", ctx)
        seen.add(each.opts[0])


class Command(TyperCommand):
    """A command that takes the global options, shows those that it can use, and refuses the others."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """Its own parameters, then the global ones that it does not define itself."""
        own = super().get_params(ctx)
        taken = {option for each in own for option in each.opts}
        return [*own, *(each for each in _globals(label_of(ctx)) if not taken & set(each.opts))]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Its arguments; an extra argument may be the graph: the message names the option for it."""
        refuse_repeated(self, ctx, args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            if "unexpected extra argument" in error.message and is_offered("store", label_of(ctx)):
                error.message += ". The graph is given with --store URI."
            raise

    def invoke(self, ctx: Context) -> Any:
        """Run it, unless a flag was given that does not apply to it."""
        refuse_misplaced(label_of(ctx), given())
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        """Its arguments, as its usage shows them."""
        return usage_arguments(super().collect_usage_pieces(ctx))

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """What it is for, its parameters, and examples."""
        self.format_usage(ctx, formatter)
        write_prose(formatter, self.help or "")
        write_parameters(formatter, ctx, self.get_params(ctx))
        write_examples(formatter, self.help or "")


class Group(TyperGroup):
    """A group of commands; the global options may stand before the command's name."""

    def get_params(self, ctx: Context) -> list[Parameter]:
        """The global options, shown for the program only."""
        return [*super().get_params(ctx), *_globals(None if ctx.parent is None else "")]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Its options, each given once."""
        refuse_repeated(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        """What it is for, and its commands."""
        self.format_usage(ctx, formatter)
        write_prose(formatter, self.help or "")
        write_commands(formatter, {"Commands": lines_about(self.commands)})
        write_parameters(formatter, ctx, self.get_params(ctx))
        write_examples(formatter, self.help or "")


def _globals(label: str | None) -> Iterator[TyperOption]:
    """The global options: all shown for the program itself (None), none for a group (empty), else those that apply."""
    for name, (metavar, text) in _FLAGS_WITH_VALUES.items():
        yield _option(name, text, metavar=metavar, visible=_is_visible(name, label))
    for name, text in _SWITCHES.items():
        yield _option(name, text, visible=_is_visible(name, label))
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


def _is_visible(name: str, label: str | None) -> bool:
    if label is None:
        return name != "server"
    if not label or name == "debug":
        return False
    if name == "yes":
        return asks_for_consent(label)
    return echoes_its_target(label) if name == "quiet" else is_offered(cast("Flag", name), label)


def _option(name: str, text: str, *, visible: bool, metavar: str | None = None) -> TyperOption:
    return TyperOption(
        param_decls=[f"--{name}", f"_{name}"],
        type=bool if metavar is None else str,
        is_flag=metavar is None,
        metavar=metavar,
        expose_value=False,
        callback=_store_option,
        help=text,
        hidden=not visible,
        rich_help_panel=PANEL,
    )


def _store_option(ctx: Context, param: Parameter, value: object) -> object:
    if value:
        ctx.meta[_KEY + (param.name or "").removeprefix("_")] = value
    return value


def _print_version(ctx: Context, _param: Parameter, value: object) -> object:
    if not value or ctx.resilient_parsing:
        return value
    from omnigraph import __version__

    typer.echo(f"omnigraph {__version__}")
    raise typer.Exit


assert set(_FLAGS_WITH_VALUES) == set(FLAGS)

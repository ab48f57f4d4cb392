"""Asking before something is destroyed that is not on this machine."""

from __future__ import annotations

import sys

import typer

from omnigraph.cli.options import given
from omnigraph.errors import InvalidInput


def require_consent(what: str, uri: str, *, is_local: bool, json: bool) -> None:
    """Return if it may be done: on a local graph, with `--yes`, or when a person at a terminal agrees."""
    if is_local or given().yes:
        return
    if json or not sys.stdin.isatty():
        raise InvalidInput(f"{what} destroys data of {uri}, which is not on this machine: pass --yes to consent.")
    answer = typer.prompt(
        f"{what} destroys data of {uri}. Continue? [yes/no]", default="no", show_default=False, err=True
    )
    if answer.strip().lower() not in {"yes", "y"}:
        raise InvalidInput(f"{what} was not confirmed; nothing was changed.")

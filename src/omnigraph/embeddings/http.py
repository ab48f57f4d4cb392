"""Sends one HTTP request to a provider, with retries and exponential backoff until a deadline."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import urllib3

from omnigraph.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.world import World

_AGAIN = frozenset({429, *range(500, 600)})
_SHOWN = 300
# Connections are reused between requests. A forked or remote process opens its own.
_pool = urllib3.PoolManager(retries=False)


@dataclass(frozen=True)
class Patience:
    """Retry limits: attempts, first pause (doubled each time), seconds per request, and seconds in total (0: none)."""

    attempts: int = 4
    backoff: float = 0.2
    timeout: float = 30.0
    deadline: float = 60.0


USUAL = Patience()


def post(url: str, body: object, headers: Mapping[str, str], patience: Patience, world: World, *, name: str) -> Any:
    """POST JSON and return the JSON response. Time-outs, broken connections, 429 and 5xx are retried."""
    began = world.monotonic()
    reason = ""
    for attempt in range(max(1, patience.attempts)):
        left = _time_left(patience, world.monotonic() - began)
        if left <= 0:
            raise EmbeddingFailed(f"{name} did not answer within {patience.deadline:g} s{reason}.", provider=name)
        status, text = _once(url, body, headers, min(patience.timeout, left))
        if status is not None and status not in _AGAIN:
            return _answer(status, text, name)
        reason = f": {f'status {status}, ' if status is not None else ''}{text[:_SHOWN]}"
        if attempt + 1 < patience.attempts:
            world.sleep(min(patience.backoff * 2**attempt, left))
    raise EmbeddingFailed(f"{name} failed {patience.attempts} times{reason}. Try again later.", provider=name)


def _time_left(patience: Patience, spent: float) -> float:
    return patience.deadline - spent if patience.deadline else float("inf")


def _once(url: str, body: object, headers: Mapping[str, str], timeout: float) -> tuple[int | None, str]:
    try:
        answer = _pool.request(
            "POST",
            url,
            body=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
            timeout=timeout,
            redirect=False,
        )
    except urllib3.exceptions.HTTPError as error:
        return None, f"{type(error).__name__}: {error}"
    return int(answer.status), answer.data.decode("utf-8", "replace")


def _answer(status: int, text: str, name: str) -> Any:
    if status != 200:
        raise EmbeddingFailed(
            f"{name} refused the request with status {status}: {text[:_SHOWN]}. "
            "Check the model, the key and the address.",
            provider=name,
        )
    try:
        return json.loads(text)
    except ValueError as error:
        raise EmbeddingFailed(
            f"{name} answered with something that is not JSON: {text[:_SHOWN]}", provider=name
        ) from error

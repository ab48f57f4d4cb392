"""The embedding provider that the environment configures, with the variable names of the released program.

OMNIGRAPH_EMBED_PROVIDER   openai-compatible (OpenRouter by default), openai, gemini or mock
OMNIGRAPH_EMBED_BASE_URL, OMNIGRAPH_EMBED_MODEL          override the provider's defaults
OMNIGRAPH_EMBED_RETRY_ATTEMPTS, _RETRY_BACKOFF_MS, _TIMEOUT_MS, _DEADLINE_MS
OMNIGRAPH_EMBEDDINGS_MOCK  anything but 0 and false selects the mock provider
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.embeddings.embedder import Embeddings
from omnigraph.embeddings.http import USUAL, Patience
from omnigraph.embeddings.providers import Gemini, Mock, OpenAICompatible
from omnigraph.errors import EmbeddingFailed, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from omnigraph.embeddings.providers import Provider
    from omnigraph.world import World


@dataclass(frozen=True)
class _Kind:
    base_url: str
    model: str
    keys: tuple[str, ...]


_KINDS = {
    "openai-compatible": _Kind(
        "https://openrouter.ai/api/v1", "openai/text-embedding-3-large", ("OPENROUTER_API_KEY", "OPENAI_API_KEY")
    ),
    "openai": _Kind("https://api.openai.com/v1", "text-embedding-3-large", ("OPENAI_API_KEY",)),
    "gemini": _Kind("https://generativelanguage.googleapis.com/v1beta", "gemini-embedding-2", ("GEMINI_API_KEY",)),
}


def from_environment(world: World) -> Embeddings:
    """The configured provider. Raises `EmbeddingFailed`, which names the variable, if its API key is not set."""
    environ = world.environ
    name = environ.get("OMNIGRAPH_EMBED_PROVIDER") or "openai-compatible"
    if name == "mock" or _is_on(environ.get("OMNIGRAPH_EMBEDDINGS_MOCK")):
        return Embeddings(Mock())
    if name not in _KINDS:
        raise InvalidInput(f"OMNIGRAPH_EMBED_PROVIDER is {name!r}; it can be {', '.join(_KINDS)} or mock.")
    return Embeddings(_provider(name, environ))


def _provider(name: str, environ: Mapping[str, str]) -> Provider:
    kind = _KINDS[name]
    key = next((environ[each] for each in kind.keys if environ.get(each)), None)
    if key is None:
        wanted = " or ".join(kind.keys)
        raise EmbeddingFailed(f"{wanted} is required for the {name} embedding provider.", provider=name)
    base_url = environ.get("OMNIGRAPH_EMBED_BASE_URL") or kind.base_url
    model = environ.get("OMNIGRAPH_EMBED_MODEL") or kind.model
    if name == "gemini":
        return Gemini(key, model, base_url, _patience(environ))
    return OpenAICompatible(base_url, model, key, _patience(environ))


def _patience(environ: Mapping[str, str]) -> Patience:
    return Patience(
        attempts=int(_number(environ, "RETRY_ATTEMPTS", USUAL.attempts)),
        backoff=_number(environ, "RETRY_BACKOFF_MS", USUAL.backoff * 1_000) / 1_000,
        timeout=_number(environ, "TIMEOUT_MS", USUAL.timeout * 1_000) / 1_000,
        deadline=_number(environ, "DEADLINE_MS", USUAL.deadline * 1_000) / 1_000,
    )


def _number(environ: Mapping[str, str], name: str, usual: float) -> float:
    text = environ.get(f"OMNIGRAPH_EMBED_{name}", "")
    if not text:
        return usual
    if not text.isdigit():
        raise InvalidInput(f"OMNIGRAPH_EMBED_{name} is {text!r}; it must be a whole number.")
    return float(text)


def _is_on(text: str | None) -> bool:
    return text is not None and text.strip().lower() not in ("", "0", "false")

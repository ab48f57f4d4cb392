"""Vectors of texts: who makes them, how often they are asked, and what is checked before a vector is believed."""

from __future__ import annotations

from omnigraph.embeddings.embedder import Embeddings
from omnigraph.embeddings.http import Patience
from omnigraph.embeddings.providers import Ask, Calling, Gemini, Mock, OpenAICompatible, Provider
from omnigraph.embeddings.settings import from_environment

__all__ = [
    "Ask",
    "Calling",
    "Embeddings",
    "Gemini",
    "Mock",
    "OpenAICompatible",
    "Patience",
    "Provider",
    "from_environment",
]

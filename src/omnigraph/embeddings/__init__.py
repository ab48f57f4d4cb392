"""Text embeddings: providers, retries, and validation of the vectors that they return."""

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

"""Text embeddings: providers, retries, and validation of the vectors that they return."""

from __future__ import annotations

from omnigraph.embeddings.embedder import Embeddings, from_environment
from omnigraph.embeddings.providers import Ask, Calling, Gemini, Mock, OpenAICompatible, Patience, Provider

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

"""What supports each sentence of a text: `pullquote.cite`, and the classes of its result."""

from pullquote._engine.highlighter import cite
from pullquote._results.cited import Cited, CitedPassage, CitedSentence, MissingFact, SourceMarker

__all__ = ["Cited", "CitedPassage", "CitedSentence", "MissingFact", "SourceMarker", "cite"]

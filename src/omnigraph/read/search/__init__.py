"""Search in text and among vectors: the same answer with an index, with a part of one, and without."""

"""The bulk load, part by part: input in tasks, rows written as fragments, rules checked by packed hashes, staging."""

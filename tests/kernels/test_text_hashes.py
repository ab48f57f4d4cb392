from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.kernels.equality import is_among
from omnigraph.kernels.hashing import MANY, all_differ, are_among

TEXTS = st.lists(st.text(max_size=3), max_size=40)


def _texts(values: list[Any]) -> pa.Array[Any]:
    return pa.array(values, pa.string())


@given(st.lists(st.none() | st.text(max_size=3), max_size=40), TEXTS)
@settings(max_examples=200, deadline=None)
def test_what_is_among_others_is_what_a_set_says(asked: list[str | None], others: list[str]) -> None:
    found = are_among(_texts(asked), _texts(others))

    assert found is not None
    assert found.to_pylist() == [each is not None and each in set(others) for each in asked]


@pytest.mark.parametrize("repeated", [None, 0, MANY // 2, MANY - 1])
def test_a_text_that_stands_twice_among_many_is_seen(repeated: int | None) -> None:
    texts = [f"row {each}" for each in range(MANY)]

    assert all_differ(_texts(texts if repeated is None else [*texts, texts[repeated]])) is (repeated is None)


def test_many_are_looked_up_with_nulls_and_with_what_is_missing() -> None:
    others = [f"row {each}" for each in range(MANY)]

    found = is_among(_texts(["row 7", None, "row -1", "row 99999"]), _texts([*others, None]))

    assert found.to_pylist() == [True, False, False, True]


def test_texts_that_share_a_number_are_told_apart() -> None:
    texts = _texts([f"row {each}" for each in range(MANY)])

    assert all_differ(texts, bits=0xFF)
    assert are_among(_texts(["row 3", "absent"]), texts, bits=0xFF) is None
    assert are_among(texts, _texts(["absent"]), bits=0xFF) is None

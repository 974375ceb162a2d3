"""Heads that were written by every format load, and answer as they did then."""

import kept_heads
import pytest

MOST = 1e-4  # of logits up to 5, between machines


@pytest.mark.parametrize("name", kept_heads.names())
def test_a_kept_head_answers_as_it_did(name):
    assert kept_heads.difference(name) < MOST


def test_every_format_that_is_written_now_is_kept():
    assert set(kept_heads.WRITE) <= set(kept_heads.names())

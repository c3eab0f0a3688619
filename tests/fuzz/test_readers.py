"""A small part of ``make fuzz``: damaged files of every format, and the corpus where it is."""

from pathlib import Path

import pytest

from tests.fuzz.corpus import list_corpus, read_corpus
from tests.fuzz.driver import Worker, fuzz
from tests.fuzz.formats import FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(worker: Worker, name: str) -> None:
    tally = fuzz(name, range(40), [worker])
    assert not tally.n_failures, dict(tally.examples)
    assert tally.outcomes["read"]  # damage that nothing survives would show little


def test_the_corpus_is_refused_in_sentences(worker: Worker, corpus: Path) -> None:
    entries = list_corpus(corpus)
    tally = read_corpus(entries, worker)
    assert not tally.n_failures, dict(tally.examples)
    assert tally.outcomes["refused"] == len(entries) > 0

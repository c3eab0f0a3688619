"""Arguments in messages of the library become options of the command line."""

import pytest

from isocapsnet.cli._errors import as_options
from isocapsnet.cli.data import READING


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("choose one with select=.", "choose one with --select."),
        ("check n_nodes=, index_base= and atlas=.", "check --n-nodes, --index-base and --atlas."),
        ('pass kind="edges" or kind="series".', "pass --kind edges or --kind series."),
        ("pass directed=True or directed=False.", "pass --directed or --undirected."),
        ("pass index_base=0.", "pass --index-base 0."),
        ("n_nodes=0 is out of range", "--n-nodes 0 is out of range"),
        ("max_epochs=5 is out of range", "max_epochs=5 is out of range"),
        ("my.target=x and a_target=y", "my.target=x and a_target=y"),
    ],
)
def test_arguments_become_options(sentence, expected):
    assert as_options(sentence, READING) == expected

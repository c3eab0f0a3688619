"""Arguments in messages of the library become options of the command line."""

import ast
import re
from pathlib import Path

import pytest

import isocapsnet
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
        ('name them with covariates=["age", "sex"].', "name them with --covariates age,sex."),
        ("isocapsnet.check_data lists all.", "isocapsnet data check lists all."),
        ("isocapsnet.compare reads both.", "isocapsnet compare reads both."),
        ("isocapsnet.compared is no function", "isocapsnet.compared is no function"),
        ("max_epochs=5 is out of range", "max_epochs=5 is out of range"),
        ("my.target=x and a_target=y", "my.target=x and a_target=y"),
    ],
)
def test_arguments_become_options(sentence, expected):
    assert as_options(sentence, READING) == expected


def test_messages_of_the_library_do_not_speak_of_options_or_commands():
    package = Path(isocapsnet.__file__).parent
    for path in package.rglob("*.py"):
        if package / "cli" in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                spoken = re.search(r"\s--[a-z]|`isocapsnet [a-z]", node.value)
                assert spoken is None, f"{path.name}:{node.lineno}"

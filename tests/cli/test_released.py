"""The released variant on the command line: a method like the others, for two classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from isocapsnet._methods import list_methods
from isocapsnet.cli import main
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.synthetic import make_planted_graphs
from isocapsnet.evaluation.plan import keep_suitable
from isocapsnet.models import MODELS

RELEASED = "isocapsnet-released[max_epochs=2,kernel_size=3,decoder_sizes=(8,)]"


def _call(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """30 graphs of 8 nodes in two classes, and in three."""
    folder = tmp_path_factory.mktemp("studies")
    graphs = make_planted_graphs(30, 8, random_state=0).graphs
    for n_classes in (2, 3):
        labels = np.array(["a", "b", "c"])[np.arange(30) % n_classes]
        BrainGraphs(graphs, labels, name=f"{n_classes} classes").save(folder / f"{n_classes}.npz")
    return {n_classes: folder / f"{n_classes}.npz" for n_classes in (2, 3)}


@pytest.mark.filterwarnings("ignore")
def test_benchmark_explain_and_report_take_it_by_its_name(studies: dict[int, Path], tmp_path: Path) -> None:
    run = ("benchmark", studies[2], "--methods", f"{RELEASED},constant", "--protocol", "paper", "--jobs", 0)
    assert _call(*run, "--out", tmp_path / "run").exit_code == 0
    table = pd.read_csv(tmp_path / "run" / "results.csv").set_index("method")
    (label,) = set(table.index) - {"constant"}
    assert label.startswith("isocapsnet-released[") and table.failed[label] == 0
    assert _call("report", tmp_path / "run").exit_code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "isocapsnet-released" in page and "arXiv:2206.13465" in page
    model = tmp_path / "model.safetensors"
    assert _call("fit", studies[2], "--method", RELEASED, "--out", model).exit_code == 0
    assert _call("explain", model, studies[2], "--folds", 3, "--out", tmp_path / "explained").exit_code == 0
    assert (tmp_path / "explained" / "cards.json").exists()


def test_three_classes_refuse_it_by_name_and_leave_it_out_of_all(studies: dict[int, Path], tmp_path: Path) -> None:
    result = _call("benchmark", studies[3], "--methods", "isocapsnet-released,linear", "--out", tmp_path / "run")
    assert result.exit_code == 2 and "3" in result.output and "isocapsnet-released" in result.output
    everything = list_methods("all")
    assert {method.name for method in keep_suitable(everything, 2, named=False)} == set(MODELS)
    with pytest.warns(match="isocapsnet-released"):
        left = {method.name for method in keep_suitable(everything, 3, named=False)}
    assert left == set(MODELS) - {"isocapsnet-released"}


@pytest.mark.parametrize("value", ["released", "paper"])
def test_the_former_parameter_is_refused_with_the_name_of_the_method(studies: dict[int, Path], value: str) -> None:
    result = _call("fit", studies[2], "--method", f"isocapsnet[formulation={value}]", "--out", "unused")
    assert result.exit_code == 2 and "isocapsnet-released" in result.output

"""Options of the front door: what is read as meant, and what is refused before any work is done."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isocapsnet as ic

SMALL: dict[str, Any] = {"repeats": 1, "candidates": 1, "explain": False, "progress": False, "jobs": 0}


@pytest.fixture
def study() -> ic.BrainGraphs:
    planted = ic.make_planted_graphs(24, 6, signal_to_noise=4.0, random_state=0)
    covariates = pd.DataFrame({"age": np.linspace(20, 60, 24), "person": [f"p{i}" for i in range(24)]})
    subjects = [str(i) for i in range(1, 25)]
    return ic.BrainGraphs(planted.graphs, planted.labels, subjects=subjects, covariates=covariates, name="small")


@pytest.fixture
def folder(study: ic.BrainGraphs, tmp_path: Path) -> Path:
    """The study as a folder of matrices with a table of participants."""
    folder = tmp_path / "study"
    folder.mkdir()
    assert study.adjacency is not None and study.covariates is not None
    for subject, graph in zip(study.subjects, study.adjacency, strict=True):
        np.savetxt(folder / f"sub-{subject}_task-rest.csv", graph, delimiter=",")
    table = study.covariates.assign(participant_id=[f"sub-{s}" for s in study.subjects], dx=study.labels)
    table.to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder


def test_one_name_is_one_name_and_not_its_letters(study: ic.BrainGraphs, folder: Path, tmp_path: Path) -> None:
    data = ic.load_graphs(folder, target="dx", exclude="12", select="task-rest", covariates="age")
    assert data.exclusions.keys() == {"12"} and list(pd.DataFrame(data.covariates)) == ["age"]
    results = ic.benchmark(study, ["constant"], confounds="age", exclude="12", out=tmp_path / "out", **SMALL)
    assert results.context["preparation"][0]["columns"] == ("age",)
    assert results.data is not None and len(results.data) == 23


def test_data_are_checked_with_the_options_they_are_read_with(study: ic.BrainGraphs, folder: Path) -> None:
    table = folder / "participants.tsv"
    moved = table.rename(folder.parent / "table.tsv")
    assert ic.check_data(folder, target="dx", participants=str(moved), exclude="12", like=study).errors == []
    [error] = ic.check_data(folder, target="dx", participants=str(moved), like=study.subset([0]), n_nodes=7).errors
    assert "7" in error


@pytest.mark.parametrize(
    "option",
    [
        *({"memory_limit": "4GB", "jobs": 1}, {"timeout": "60", "jobs": 1}, {"timeout": 0, "jobs": 1}),
        *({"folds": 0}, {"folds": 1}, {"candidates": 0}, {"jobs": -1}, {"jobs": 1.5}, {"permutations": -1}),
        *({"timeout": 60, "jobs": 0}, {"memory_limit": 10**9, "jobs": 0}, {"repeats": 0}),
        *({"transform": "harmonize"}, {"transform": ["abs", "harmonize"]}),
    ],
)
def test_options_that_cannot_be_followed_are_refused_before_anything_is_written(
    option: dict[str, Any], study: ic.BrainGraphs, tmp_path: Path
) -> None:
    [name, *_] = option
    with pytest.raises(ic.InputError, match="site=" if name == "transform" else f"{name}="):
        ic.benchmark(study, ["constant"], out=tmp_path / "out", **{**SMALL, **option})
    assert not (tmp_path / "out").exists()


def test_numbers_of_numpy_are_numbers(study: ic.BrainGraphs, tmp_path: Path) -> None:
    options = {**SMALL, "folds": np.int64(2), "candidates": np.int32(1)}
    results = ic.benchmark(study, ["constant"], out=tmp_path / "out", **options)
    assert results.summary.rows[0].jobs == 2 and type(results.context["protocol"]["n_folds"]) is int

"""A metric, a protocol and a method are one entry of a registry each; nothing else has to be edited."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benchmark_toys import Prior
from click.testing import CliRunner

import isocapsnet as ic
from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.evaluation.metrics import METRICS, Metric
from isocapsnet.evaluation.procedures import TESTS
from isocapsnet.evaluation.protocol import PROTOCOLS, Scheme, Split
from isocapsnet.evaluation.samples import Samples


@pytest.fixture
def study(tmp_path: Path) -> Path:
    planted = ic.make_planted_graphs(24, 6, random_state=0)
    ic.BrainGraphs(planted.graphs, planted.labels, name="small").save(tmp_path / "study.npz")
    return tmp_path / "study.npz"


def _benchmark(study: Path, out: Path, *options: str) -> dict[str, Any]:
    command = ["benchmark", str(study), "--jobs", "0", "--no-explain", "--out", str(out), *options]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads((out / "results.json").read_text())
    return content


def test_a_metric_is_one_entry(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        METRICS,
        "log_likelihood",
        Metric("log-likelihood", lambda labels, p: float(np.log(p[np.arange(len(p)), labels]).mean()), low=-np.inf),
    )
    content = _benchmark(study, tmp_path / "run", "--methods", "constant", "--repeats", "1")
    value = content["methods"][0]["metrics"]["log_likelihood"]["mean"]
    assert value == pytest.approx(np.log(0.5))
    assert pd.read_csv(tmp_path / "run" / "results.csv")["log_likelihood"].tolist() == pytest.approx([value])
    assert ic.open_results(tmp_path / "run").table["log_likelihood"].tolist() == pytest.approx([value])


def test_a_protocol_is_one_entry(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def halves(samples: Samples, n_folds: int, seed: int) -> list[Split]:
        order = np.random.default_rng(seed).permutation(samples.labelled)
        return [Split("half", order[::2], order[1::2])]

    monkeypatch.setitem(PROTOCOLS, "halves", Scheme(halves, is_tuned=False, n_repeats=4))
    content = _benchmark(study, tmp_path / "run", "--methods", "constant", "--protocol", "halves")
    assert (content["protocol"]["name"], content["protocol"]["repeats"]) == ("halves", 4)
    assert [fold["n_test"] for fold in content["methods"][0]["folds"]] == [12] * 4
    assert ic.open_results(tmp_path / "run").context["protocol"]["name"] == "halves"


def test_a_test_is_one_entry(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sure = TESTS["corrected-z"]._replace(above_chance=lambda folds: 0.01, of_chance="by faith")
    monkeypatch.setitem(TESTS, "sure", sure)
    content = _benchmark(study, tmp_path / "run", "--methods", "constant", "--repeats", "1", "--test", "sure")
    assert (content["test"], content["methods"][0]["p_chance"]) == ("sure", 0.01)
    assert ic.open_results(tmp_path / "run").verdicts == {"constant": "above chance"}
    assert ic.open_results(tmp_path / "run", test="corrected-z").verdicts["constant"].startswith("not distinguishable")
    with pytest.raises(InputError, match="test"):
        ic.open_results(tmp_path / "run", test="faith")


def test_a_method_is_one_entry(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ic.MODELS, "prior", Prior)
    content = _benchmark(study, tmp_path / "run", "--methods", "prior,constant", "--repeats", "1", "--no-save-models")
    assert [method["failed"] for method in content["methods"]] == [0, 0]

"""What a notebook shows of data, estimators and results: short, escaped, with the numbers that matter."""

import re
from pathlib import Path

import numpy as np
import pytest

from isocapsnet import MODELS, Results, open_results
from isocapsnet.evaluation import tabulate
from tests.report.toys import make_data


def test_data_show_their_name_size_and_classes() -> None:
    shown = make_data(name="a <b>")._repr_html_()
    assert all(part in shown for part in ("a &lt;b&gt;", "<td>48</td>", "<td>90</td>", "control: 24", "case: 24"))


@pytest.mark.parametrize("method", sorted(MODELS))
def test_every_estimator_shows_its_name_and_that_it_is_not_fitted(method: str) -> None:
    shown = MODELS[method]()._repr_html_()
    assert MODELS[method].__name__ in shown and "Not fitted" in shown


def test_a_fitted_estimator_says_so() -> None:
    graphs = np.random.default_rng(0).normal(size=(4, 3, 3))
    assert "Not fitted" not in MODELS["constant"]().fit(graphs, [0, 1, 0, 1])._repr_html_()


def test_results_show_each_method_with_interval_and_verdict_the_best_first(toy_folder: Path) -> None:
    results = open_results(toy_folder)
    shown = results._repr_html_()
    assert re.findall(r"<tr><th>(\w+)</th><td>", shown) == ["linear", "isocapsnet", "constant", "gcn"]
    best = next(row for row in results.summary.rows if row.method == "linear")
    area = best.metrics["roc_auc"]
    assert f"<td>{area.mean:.3f} [{area.low:.3f}, {area.high:.3f}]</td>" in shown
    assert "<td>–</td>" in shown and "not enough &lt;memory&gt; &amp; time" in shown


def test_results_without_any_method_are_an_empty_table() -> None:
    assert "<tbody></tbody>" in Results(tabulate([]), {})._repr_html_()

"""A search that chooses among transforms: what it chooses, where it fits them, and what it refuses."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

import isocapsnet as ic
from isocapsnet._methods import list_transforms
from isocapsnet.cli import main
from isocapsnet.datasets.connectivity import TRANSFORMS
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.estimation import list_candidates
from isocapsnet.evaluation.jobs import run_job
from isocapsnet.evaluation.plan import MethodSpec, Plan
from isocapsnet.evaluation.preparation import Preparation
from isocapsnet.evaluation.protocol import Protocol, inner_folds
from isocapsnet.evaluation.samples import DataSource, Samples
from isocapsnet.models import MODELS

LINEAR = MethodSpec("linear", "isocapsnet.models.baselines:LinearClassifier")
NAMES = ["log", "tangent", "threshold"]  # the second cannot be applied to counts


def make_counts(seed=0, n_graphs=60, n_nodes=8, effect=6):
    """Counts over several orders of magnitude, whose logarithms have an effect; no variances on the diagonal."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n_graphs) % 2
    logs = 3 * rng.normal(size=(n_graphs, n_nodes, n_nodes))
    logs[:, 0, 1] += effect * labels
    graphs = np.exp(np.triu(logs, 1)) * np.triu(np.ones((n_nodes, n_nodes)), 1)
    return BrainGraphs(graphs + graphs.swapaxes(1, 2), labels)


def plan_for(data, **options):
    samples = Samples(data, None, False)
    source = DataSource("", samples.digest)
    source.keep(samples)
    return Plan(source, (LINEAR,), transforms=list_transforms(NAMES), repeats=1, **options)


def run_plan(data, tmp_path):
    return [run_job(task) for task in plan_for(data).tasks(tmp_path)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_choice_is_the_best_mean_over_inner_folds_of_pipelines_fitted_by_hand(seed, tmp_path):
    data = make_counts(seed, effect=1.5)  # so weak that another transform is best in other folds
    plan = plan_for(data, protocol=Protocol(search="exhaustive"))
    for task in plan.tasks(tmp_path):
        job, samples = task.job, task.source.load()
        train = plan.protocol.splits(samples, 0)[job.fold].train
        labels = samples.labels[train]
        means = {}
        for name in ["none", "log", "threshold"]:
            scores = []
            for inside, outside in inner_folds(labels, None, 3, job.seed("inner folds")):
                transform = TRANSFORMS[name]().fit(data.adjacency[train[inside]]) if name != "none" else None
                graphs = [data.adjacency[train[part]] for part in (inside, outside)]
                if transform is not None:
                    graphs = [transform.transform(part) for part in graphs]
                model = MODELS["linear"](random_state=job.seed("fit")).fit(graphs[0], labels[inside])
                scores.append(roc_auc_score(labels[outside], model.predict_proba(graphs[1])[:, 1]))
            means[name] = np.mean(scores)
        assert run_job(task)["settings"].get("transform", "none") == max(means, key=means.get)


def test_what_is_chosen_is_what_predicts(tmp_path):
    """A transform that is chosen in every fold gives the predictions of the same transform without a choice."""
    results = ic.benchmark(
        make_counts(), ["linear", "constant"], choose_transform="log", repeats=1, jobs=0, out=tmp_path / "chosen",
        progress=False,
    )  # fmt: skip
    fixed = ic.benchmark(
        make_counts(), ["linear"], transform="log", repeats=1, jobs=0, out=tmp_path / "fixed", progress=False
    )
    assert results.transforms == {"linear": {"log": 3}}  # the constant answer has nothing to choose
    assert any("linear: log 3" in sentence for sentence in results.remarks)
    chosen = results.predictions.query("method == 'linear'")
    assert np.array_equal(chosen.filter(like="p_"), fixed.predictions.filter(like="p_"))


def test_a_transform_that_the_graphs_do_not_allow_is_left_out(tmp_path):
    assert not (make_counts().adjacency[:, range(8), range(8)] > 0).any()
    with warnings.catch_warnings(record=True):
        settings = [record["settings"].get("transform", "none") for record in run_plan(make_counts(), tmp_path)]
    assert len(settings) == 3 and "tangent" not in settings


def test_test_subjects_have_no_part_in_a_chosen_transform():
    data = make_counts()
    train, test = np.arange(40), np.arange(40, 60)
    graphs = data.adjacency.copy()
    graphs[test[1:]] *= 1000
    for name in ("log", "threshold"):
        prepared = []
        for some in (data, BrainGraphs(graphs, data.labels)):
            samples = Samples(some, None, False)
            preparation = Preparation((), choices=list_transforms(NAMES)).settle({"transform": name})
            prepared.append([preparation.fit(samples, train, None), preparation.apply(samples, test[:1])])
        assert all(np.array_equal(*pair) for pair in zip(*prepared, strict=True))


def test_every_transform_is_tried_before_the_rest_of_a_capped_grid():
    space = {"C": [0.1, 1.0, 10.0], "transform": ["none", "fisher-z", "tangent"]}
    defaults = {"C": 1.0, "transform": "none"}
    candidates = list_candidates(space, defaults, 5, seed=0)
    assert candidates[:3] == [{}, {"transform": "fisher-z"}, {"transform": "tangent"}]
    assert len(candidates) <= 5
    whole = list_candidates(space, defaults, 10, seed=0)
    assert len(whole) == 9 and len({tuple(sorted((defaults | one).items())) for one in whole}) == 9
    assert list_candidates(space, defaults, 2, seed=0) == candidates[:2]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"choose_transform": "log", "protocol": "paper"}, "nested"),
        ({"choose_transform": "log", "candidates": 1}, "candidates"),
        ({"choose_transform": "harmonize"}, "harmonize"),
        ({"choose_transform": "sqrt"}, "sqrt"),
        ({"choose_transform": "tangent[width=3]"}, "width"),
        ({"choose_transform": "tangent[shrinkage=5]"}, "shrinkage"),
        ({"choose_transform": "tangent"}, "diagonal"),
        ({"choose_transform": "fisher-z"}, "correlations"),
        ({"choose_transform": "log,threshold,density", "candidates": 3}, "candidates=4"),
    ],
)
def test_choices_that_cannot_be_made_are_refused(options, word, tmp_path):
    with pytest.raises(ic.InputError, match=word):
        ic.benchmark(make_counts(), "linear", out=tmp_path, jobs=0, progress=False, **options)


def test_the_command_line_chooses_as_python_does(tmp_path):
    path = tmp_path / "counts.npz"
    make_counts().save(path)
    options = [
        "--methods",
        "linear",
        "--choose-transform",
        "log,density[density=0.5]",
        "--repeats",
        "1",
        "--jobs",
        "0",
    ]
    outcome = CliRunner().invoke(main, ["benchmark", str(path), *options, "--out", str(tmp_path / "cli")])
    assert outcome.exit_code == 0, outcome.output
    assert "log 3" in outcome.output
    results = ic.benchmark(
        path, "linear", choose_transform=["log", "density[density=0.5]"], repeats=1, jobs=0, out=tmp_path / "python",
        progress=False,
    )  # fmt: skip
    assert ic.open_results(tmp_path / "cli").transforms == results.transforms == {"linear": {"log": 3}}
    probabilities = [run.predictions.filter(like="p_") for run in (results, ic.open_results(tmp_path / "cli"))]
    assert np.array_equal(*probabilities)


def test_without_a_choice_jobs_keep_their_keys():
    """Results of earlier runs are found again."""
    samples = Samples(make_counts(), None, False)
    source = DataSource("", samples.digest)
    source.keep(samples)
    [task, *_] = Plan(source, (LINEAR,), Protocol(), repeats=1).tasks(Path())
    assert "transform" not in task.job.space and task.transforms == {}


def test_a_fit_like_a_benchmark_makes_the_same_choice_and_saves_it(tmp_path):
    data = make_counts()
    results = ic.benchmark(
        data, "linear", choose_transform="log,threshold", repeats=1, jobs=0, out=tmp_path / "results", progress=False
    )
    assert results.transforms == {"linear": {"log": 3}}
    model = ic.fit(like=tmp_path / "results", method="linear", out=tmp_path / "model.safetensors")
    assert [step.name for step in model.steps] == ["log"]
    by_hand = ic.fit(data, "linear", transform="log")
    loaded = ic.load_model(tmp_path / "model.safetensors")
    for one in (model, loaded):
        assert np.array_equal(ic.predict(one, data).filter(like="p_"), ic.predict(by_hand, data).filter(like="p_"))


def test_time_series_have_a_tangent_space_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    data = BrainGraphs(time_series=[rng.normal(size=(30, 5)) for _ in range(24)], labels=np.arange(24) % 2)
    with pytest.raises(ic.InputError, match="connectivity"):
        ic.benchmark(data, "linear", choose_transform="tangent", out=tmp_path, jobs=0, progress=False)


def test_runs_with_other_choices_can_be_told_apart(tmp_path):
    for choice in ("", "log", "threshold"):
        ic.benchmark(make_counts(), "linear", choose_transform=choice, repeats=1, jobs=0, out=tmp_path, progress=False)
    names = [row.method for row in ic.open_results(tmp_path).summary.rows]
    assert len({*names}) == 3
    assert any("none, log" in name for name in names) and any("none, threshold" in name for name in names)

"""The forms of Iso-CapsNet: what each sees, how they are weighed, and that motifs do not depend on node order."""

import json
import warnings
from copy import deepcopy

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet._validation import InputError
from isocapsnet.models._calibration import choose_second
from isocapsnet.models._motif_form import LogitsLoss, MotifForm
from isocapsnet.models._persistence import _digest, load_model, save_model
from isocapsnet.models._training import TrainingDivergedError
from isocapsnet.nn import GraphDecoder

SMALL = {"n_templates": 1, "reconstruction_weight": 0, "routing_iterations": 1, "random_state": 0}


def accuracy_on_new_graphs(effect, **parameters):
    planted = make_planted_graphs(240, 16, effect=effect, placement="free", random_state=0)
    model = IsoCapsNetClassifier(**SMALL, **parameters).fit(planted.graphs[:160], planted.labels[:160])
    return model.score(planted.graphs[160:], planted.labels[160:]), model


@pytest.mark.parametrize("effect", ["motif", "wiring"])
def test_the_motif_form_sees_patterns_without_a_fixed_place(effect):
    assert accuracy_on_new_graphs(effect, windows="neighborhood", calibrate=False)[0] > 0.9


def test_the_form_of_the_paper_does_not_see_them():
    assert accuracy_on_new_graphs("wiring", windows="contiguous", calibrate=False, max_epochs=30)[0] < 0.7


@pytest.fixture(scope="module")
def wired():
    """The accuracy and the model of a fit to patterns that a motif form sees."""
    return accuracy_on_new_graphs("wiring", max_epochs=60)


def test_auto_finds_the_form_that_sees_the_pattern(wired):
    accuracy, model = wired
    assert accuracy > 0.9
    assert model.forms_ == ("contiguous", "neighborhood") and model.form_weights_[1] > 0


def test_auto_finds_weak_patterns_whose_nodes_follow_each_other_by_ranges_of_nodes():
    planted = make_planted_graphs(240, 12, effect="wiring", signal_to_noise=3.0, random_state=100)
    accuracy = {}
    for windows in ("auto", "neighborhood"):
        model = IsoCapsNetClassifier(**SMALL, windows=windows, max_epochs=60)
        model.fit(planted.graphs[:160], planted.labels[:160])
        accuracy[windows] = model.score(planted.graphs[160:], planted.labels[160:])
        assert model.forms_ == {"auto": ("contiguous", "diagonal")}.get(windows, (windows,))
    assert accuracy["auto"] > 0.8 > accuracy["neighborhood"]


def test_auto_is_the_form_of_the_paper_bit_for_bit_where_motifs_do_not_help():
    planted = make_planted_graphs(60, 12, effect="null", random_state=0)
    auto, paper = (
        IsoCapsNetClassifier(windows=windows, max_epochs=12, **SMALL).fit(planted.graphs, planted.labels)
        for windows in ("auto", "contiguous")
    )
    assert auto.forms_ == ("contiguous",) and auto.form_weights_ == (1.0, 0.0)
    np.testing.assert_array_equal(auto.predict_proba(planted.graphs), paper.predict_proba(planted.graphs))


INVARIANT = {"windows": "neighborhood", "max_epochs": 20, "random_state": 0}


def test_a_refit_on_shuffled_nodes_gives_the_same_probabilities():
    planted = make_planted_graphs(60, 12, effect="motif", placement="free", random_state=0)
    order = np.random.default_rng(0).permutation(12)
    probabilities = [
        IsoCapsNetClassifier(**INVARIANT).fit(graphs, planted.labels).predict_proba(graphs)
        for graphs in (planted.graphs, planted.graphs[:, order][:, :, order])
    ]
    assert np.ptp(probabilities[0][:, 0]) > 0.1
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-4)


def test_graphs_whose_nodes_do_not_correspond_can_be_shuffled_each_in_its_own_way():
    graphs, labels = make_planted_graphs(60, 12, effect="motif", placement="free", random_state=0)[:2]
    rng = np.random.default_rng(0)
    shuffled = np.stack([graph[np.ix_(order, order)] for graph in graphs for order in [rng.permutation(12)]])
    model, refit = (
        IsoCapsNetClassifier(deviation_from="mean_edge", **INVARIANT).fit(X, labels) for X in (graphs, shuffled)
    )
    expected = model.predict_proba(graphs)
    assert np.ptp(expected[:, 0]) > 0.1
    np.testing.assert_allclose(model.predict_proba(shuffled), expected, atol=1e-5)
    np.testing.assert_allclose(refit.predict_proba(shuffled), expected, atol=1e-4)


@pytest.mark.parametrize("changes", [{}, {"calibrate": False}, {"windows": "contiguous"}, {"windows": "diagonal"}])
def test_what_was_fitted_does_not_depend_on_parameters_that_are_set_later(wired, tmp_path, changes):
    _, fitted = wired
    graphs = make_planted_graphs(10, 16, random_state=1).graphs
    model = deepcopy(fitted)
    model.set_params(**changes)
    loaded = load_model(save_model(model, tmp_path / "model"))
    for one in (model, loaded):
        assert one.forms_ == ("contiguous", "neighborhood") and one.form_weights_ == fitted.form_weights_
        np.testing.assert_array_equal(one.predict_proba(graphs), fitted.predict_proba(graphs))
        np.testing.assert_array_equal(one.match_motifs(graphs).nodes, fitted.match_motifs(graphs).nodes)
        assert one.transform(graphs).shape == (10, len(one.get_feature_names_out())) == (10, 2 * 16 + 32)
        assert one.match(graphs).scores.shape[1] == len(one.templates_) == 1


@pytest.mark.parametrize("windows", ["neighborhood", "diagonal"])
def test_a_motif_form_alone_stays_one_if_windows_is_set_later(tmp_path, windows):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    model = IsoCapsNetClassifier(windows=windows, n_motifs=5, max_epochs=4, calibrate=False).fit(graphs, labels)
    expected = model.predict_proba(graphs)
    loaded = load_model(save_model(model.set_params(windows="auto", calibrate=True), tmp_path / "model"))
    for one in (model, loaded):
        assert one.forms_ == (windows,) and one.motif_network_.windows == windows
        np.testing.assert_array_equal(one.predict_proba(graphs), expected)
        assert len(one.get_feature_names_out()) == one.transform(graphs).shape[1] == 5


def rewrite(path, change):
    """Change the content of a model file as an earlier version would have written it."""
    with safe_open(path, framework="np") as file:
        content = json.loads(file.metadata()["isocapsnet"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(content, content["values"]["dict"], arrays)
    header = {"isocapsnet": json.dumps(content, sort_keys=True), "sha256": _digest(content, arrays)}
    save_file(arrays, path, header)


@pytest.mark.parametrize("weights", [None, (1.0, 0.0)])
def test_files_of_version_3_load_without_a_warning(wired, tmp_path, weights):
    model = deepcopy(wired[1])
    model.form_weights_ = weights or model.form_weights_
    path = save_model(model, tmp_path / "model")

    def as_version_3(content, values, arrays):
        content["method_version"] = 3
        values[:] = [item for item in values if item[0] != "forms"]
        del arrays["motifs.others"]

    rewrite(path, as_version_3)
    graphs = make_planted_graphs(10, 16, random_state=1).graphs
    with warnings.catch_warnings(action="error"):
        loaded = load_model(path)
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    np.testing.assert_array_equal(loaded.transform(graphs), model.transform(graphs))
    assert torch.isfinite(
        loaded.motif_network_.locate_patterns(torch.from_numpy(graphs).to(loaded.motif_network_.center))[0]
    ).all()


@pytest.mark.parametrize(("version", "n_warnings"), [(1, 1), (2, 0)])
def test_files_from_before_the_motif_form_load(tmp_path, version, n_warnings):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    model = IsoCapsNetClassifier(windows="contiguous", max_epochs=2, n_templates=1).fit(graphs, labels)
    path = save_model(model, tmp_path / "model")

    def as_earlier(content, values, _):
        content["method_version"] = version
        values[:] = [item for item in values if item[0] not in ("forms", "form_weights")]
        own = ("windows", "n_motifs", "motif_size", "deviation_from", "template_learning_rate", "template_init")
        parameters = content["parameters"]["dict"]
        parameters[:] = [item for item in parameters if item[0] not in own]

    rewrite(path, as_earlier)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaded = load_model(path)
    assert len(caught) == n_warnings
    assert loaded.forms_ == ("contiguous",)
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))


def test_files_of_version_4_have_decoders_of_both_triangles(tmp_path):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    model = IsoCapsNetClassifier(windows="contiguous", calibrate=False, max_epochs=2, n_templates=1, device="cpu")
    model.fit(graphs, labels)
    assert not model.directed_ and model.module_.decoder.mlp[-1].out_features == 36
    model.directed_, model.module_.decoder = True, GraphDecoder(2, 16, 8)
    path = save_model(model, tmp_path / "model")

    def as_version_4(content, values, _):
        content["method_version"] = 4
        values[:] = [item for item in values if item[0] != "directed"]

    rewrite(path, as_version_4)
    with warnings.catch_warnings(action="error"):
        loaded = load_model(path)
    assert loaded.directed_
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    np.testing.assert_array_equal(loaded.reconstruct(graphs), model.reconstruct(graphs))


def test_a_directed_graph_has_a_decoder_of_both_triangles(tmp_path):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    graphs = graphs + np.triu(graphs)
    model = IsoCapsNetClassifier(windows="contiguous", calibrate=False, max_epochs=2, n_templates=1)
    model.fit(graphs, labels)
    assert model.directed_ and model.module_.decoder.mlp[-1].out_features == 64
    loaded = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.reconstruct(graphs), model.reconstruct(graphs))


@pytest.mark.parametrize(
    ("forms", "weights"),
    [(["contiguous"], [0.5, 0.5]), (["diagonal"], [1, 0]), (["auto"], [1, 0]), (["neighborhood", "diagonal"], [0, 1])],
)
def test_forms_and_weights_that_do_not_fit_are_refused(wired, tmp_path, forms, weights):
    path = save_model(wired[1], tmp_path / "model")

    def forge(_, values, __):
        values[:] = [item for item in values if item[0] not in ("forms", "form_weights")]
        values += [["forms", forms], ["form_weights", weights]]

    rewrite(path, forge)
    with pytest.raises(InputError, match="forms"):
        load_model(path)


# -- a motif form that cannot be judged, or cannot be trained ---------------------------------------------------------


def test_a_motif_form_that_diverges_is_left_out_of_a_fit_of_both(monkeypatch):
    graphs, labels = make_planted_graphs(60, 12, effect="motif", placement="free", random_state=0)[:2]
    settings = {"max_epochs": 12, **SMALL}
    paper = IsoCapsNetClassifier(windows="contiguous", **settings).fit(graphs, labels)
    monkeypatch.setattr(LogitsLoss, "forward", lambda _, output, codes: output.logits.sum() * np.nan)
    with pytest.warns(UserWarning) as caught:
        model = IsoCapsNetClassifier(**settings).fit(graphs, labels)
    messages = [str(one.message) for one in caught]
    assert sum("left out" in message and "diverged" in message for message in messages) == 2
    assert model.forms_ == ("contiguous",)
    np.testing.assert_array_equal(model.predict_proba(graphs), paper.predict_proba(graphs))
    with pytest.raises(TrainingDivergedError):
        IsoCapsNetClassifier(windows="neighborhood", calibrate=False, **settings).fit(graphs, labels)


def test_a_motif_form_that_diverges_only_in_its_last_fit_is_left_out(monkeypatch):
    graphs, labels = make_planted_graphs(120, 12, effect="motif", placement="free", random_state=0)[:2]
    settings = {"max_epochs": 20, **SMALL}
    assert len(IsoCapsNetClassifier(**settings).fit(graphs, labels).forms_) == 2
    train = MotifForm._train

    def fail_on_all_graphs(self, parts, seed):
        if len(parts.training) == len(parts.codes):
            raise TrainingDivergedError("Training diverged in epoch 1")
        return train(self, parts, seed)

    monkeypatch.setattr(MotifForm, "_train", fail_on_all_graphs)
    with pytest.warns(UserWarning, match="left out"):
        model = IsoCapsNetClassifier(**settings).fit(graphs, labels)
    paper = IsoCapsNetClassifier(windows="contiguous", **settings).fit(graphs, labels)
    np.testing.assert_array_equal(model.predict_proba(graphs), paper.predict_proba(graphs))


def test_a_class_that_is_too_small_to_judge_the_motif_form_by_leaves_it_out_untrained(monkeypatch):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    some = np.concatenate([np.flatnonzero(labels == 0), np.flatnonzero(labels == 1)[:3]])
    monkeypatch.setattr(MotifForm, "_train", None)
    with pytest.warns(UserWarning, match="motif form is left out"):
        model = IsoCapsNetClassifier(max_epochs=2, n_templates=1).fit(graphs[some], labels[some])
    assert model.forms_ == ("contiguous",)


def test_with_a_validation_part_it_judges_the_motif_form():
    _, model = accuracy_on_new_graphs("wiring", max_epochs=60, validation_fraction=0.3, patience=60)
    assert model.form_weights_[1] > 0


def test_what_a_form_does_not_have_is_refused():
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    motifs, paper = (
        IsoCapsNetClassifier(windows=windows, max_epochs=2, n_templates=1).fit(graphs, labels)
        for windows in ("neighborhood", "contiguous")
    )
    for absent in (motifs.match, motifs.reconstruct):
        with pytest.raises(InputError, match="match_motifs"):
            absent(graphs)
    with pytest.raises(AttributeError, match="windows="):
        paper.match_motifs(graphs)
    with pytest.raises(InputError, match="motif_size=6"):
        IsoCapsNetClassifier(windows="neighborhood", motif_size=6, kernel_size=2).fit(graphs[:, :5, :5], labels)


def test_unlabelled_graphs_do_not_disturb_the_motif_form():
    planted = make_planted_graphs(40, 10, random_state=0)
    model = IsoCapsNetClassifier(max_epochs=3, n_templates=1, random_state=0)
    model.fit(planted.graphs[:30], planted.labels[:30], X_unlabeled=planted.graphs[30:])
    assert np.isfinite(model.predict_proba(planted.graphs)).all()


@pytest.mark.parametrize(
    ("windows", "name", "value"),
    [("neighborhood", "learning_rate", 0.1), ("diagonal", "kernel_size", 3), ("contiguous", "motif_size", 3)],
)
def test_a_parameter_of_the_other_form_is_said_to_have_no_effect(windows, name, value):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    settings = {"max_epochs": 1, "calibrate": False, "random_state": 0, "windows": windows}
    with pytest.warns(UserWarning, match=f"{name}={value} has no effect"):
        IsoCapsNetClassifier(**settings, **{name: value}).fit(graphs, labels)


def test_spectral_matching_beside_the_motif_form():
    _, model = accuracy_on_new_graphs("motif", matching="spectral", stride=4, max_epochs=30)
    assert model.form_weights_[1] > 0


# -- weights ------------------------------------------------------------------------------------------------


def draw_scores(codes, strength, rng, n_classes=2):
    return rng.normal(size=(len(codes), n_classes)) + strength * np.eye(n_classes)[codes]


def weigh(scores, others, codes, class_weight):
    """Weights of two networks; None if the second does not earn its place."""
    combination = choose_second(scores, {"second": others}, codes, np.asarray(class_weight))
    return None if combination is None else combination.weights


@pytest.mark.parametrize("n_rare", [40, 8])
def test_one_of_two_useless_networks_is_added_in_at_most_five_of_a_hundred_fits(n_rare):
    """With the weights of "balanced", too."""
    n_added = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        codes = np.repeat([0, 1], [80 - n_rare, n_rare])
        balanced = 80 / (2 * np.bincount(codes))
        useless = {name: draw_scores(codes, 0.0, rng) for name in "ab"}
        n_added += choose_second(draw_scores(codes, 1.0, rng), useless, codes, balanced) is not None
    assert 1 <= n_added <= 28  # at most 20 are expected


def test_the_better_of_two_networks_is_added():
    rng = np.random.default_rng(0)
    codes = np.arange(80) % 2
    others = {name: draw_scores(codes, strength, rng) for name, strength in (("weak", 1.0), ("strong", 2.0))}
    assert choose_second(draw_scores(codes, 1.0, rng), others, codes, np.ones(2)).chosen == "strong"
    assert choose_second(draw_scores(codes, 1.0, rng), {}, codes, np.ones(2)) is None


def test_a_network_that_only_knows_the_sizes_of_the_classes_earns_nothing():
    rng = np.random.default_rng(0)
    codes = np.arange(100) % 5 // 4
    priors = np.tile(np.log([0.8, 0.2]), (100, 1)) + 0.01 * rng.normal(size=(100, 2))
    assert weigh(draw_scores(codes, 0.5, rng), priors, codes, np.ones(2)) is None


def test_the_weights_and_intercepts_minimise_the_log_loss():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=90)
    scores, others = draw_scores(codes, 1.0, rng, 3), draw_scores(codes, 2.0, rng, 3)
    found = choose_second(scores, {"second": others}, codes, np.ones(3))
    best = np.array([*found.weights, *found.intercepts])
    counts = np.bincount(codes)
    targets = ((np.eye(3) * counts + 1) / (counts[:, None] + 3))[codes]

    def loss(values):
        total = values[0] * scores + values[1] * others + values[2:]
        return -np.sum(targets * (total - np.log(np.exp(total).sum(axis=1, keepdims=True))))

    steps = 0.01 * np.concatenate([np.eye(5), -np.eye(5)])
    assert all(loss(best) <= loss(best + step) for step in steps)


def test_the_first_network_has_the_weight_zero_if_it_says_the_opposite():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    first, second = weigh(-draw_scores(codes, 1.0, rng), draw_scores(codes, 3.0, rng), codes, np.ones(2))
    assert first == 0 < second


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_the_scale_of_class_weights_does_not_decide_whether_a_network_is_used(scale):
    rng = np.random.default_rng(1)
    codes = np.arange(80) % 2
    for strength in (0.2, 1.0):
        scores, others = draw_scores(codes, 1.0, rng), draw_scores(codes, strength, rng)
        weights, unscaled = weigh(scores, others, codes, np.full(2, scale)), weigh(scores, others, codes, np.ones(2))
        assert (weights is None) == (unscaled is None) == (strength < 1)
        np.testing.assert_allclose(weights or 0, unscaled or 0, rtol=1e-3)


def test_a_second_network_that_says_the_opposite_is_not_added():
    rng = np.random.default_rng(0)
    codes = np.arange(6000) % 2
    assert weigh(-draw_scores(codes, 2.0, rng), -draw_scores(codes, 2.0, rng), codes, np.ones(2)) is None

"""The two forms of Iso-CapsNet: what each sees, how they are weighed, and that motifs do not depend on node order."""

import numpy as np
import pytest

from isocapsnet import IsoCapsNetClassifier, make_planted_graphs
from isocapsnet._validation import InputError
from isocapsnet.models._calibration import fit_temperature, fit_weights
from isocapsnet.models._persistence import load_model, save_model

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


def test_auto_finds_the_form_that_sees_the_pattern():
    accuracy, model = accuracy_on_new_graphs("wiring", max_epochs=60)
    assert accuracy > 0.9
    assert model.form_weights_[1] > 0


def test_auto_is_the_form_of_the_paper_bit_for_bit_where_motifs_do_not_help():
    planted = make_planted_graphs(60, 12, effect="existence", random_state=0)
    auto, paper = (
        IsoCapsNetClassifier(windows=windows, max_epochs=12, **SMALL).fit(planted.graphs, planted.labels)
        for windows in ("auto", "contiguous")
    )
    assert auto.form_weights_ == (1.0, 0.0)
    np.testing.assert_array_equal(auto.predict_proba(planted.graphs), paper.predict_proba(planted.graphs))


def test_a_refit_on_shuffled_nodes_gives_the_same_probabilities():
    planted = make_planted_graphs(60, 12, effect="motif", placement="free", random_state=0)
    order = np.random.default_rng(0).permutation(12)
    settings = {"windows": "neighborhood", "max_epochs": 20, "random_state": 0}
    probabilities = [
        IsoCapsNetClassifier(**settings).fit(graphs, planted.labels).predict_proba(graphs)
        for graphs in (planted.graphs, planted.graphs[:, order][:, :, order])
    ]
    assert np.ptp(probabilities[0][:, 0]) > 0.1
    np.testing.assert_allclose(probabilities[1], probabilities[0], atol=1e-4)


def test_both_forms_are_saved_and_loaded(tmp_path):
    _, model = accuracy_on_new_graphs("wiring", max_epochs=20)
    model.form_weights_ = (0.25, 0.75)
    graphs = make_planted_graphs(10, 16, random_state=1).graphs
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.form_weights_ == (0.25, 0.75)
    np.testing.assert_array_equal(loaded.predict_proba(graphs), model.predict_proba(graphs))
    np.testing.assert_array_equal(loaded.match_motifs(graphs).nodes, model.match_motifs(graphs).nodes)


def test_what_a_form_does_not_have_is_refused():
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    motifs, paper = (
        IsoCapsNetClassifier(windows=windows, max_epochs=2, n_templates=1).fit(graphs, labels)
        for windows in ("neighborhood", "contiguous")
    )
    for absent in (motifs.match, motifs.reconstruct):
        with pytest.raises(InputError, match="neighborhood"):
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
    ("windows", "name", "value"), [("neighborhood", "learning_rate", 0.1), ("contiguous", "motif_size", 3)]
)
def test_a_parameter_of_the_other_form_is_said_to_have_no_effect(windows, name, value):
    graphs, labels = make_planted_graphs(20, 8, random_state=0)[:2]
    settings = {"max_epochs": 1, "calibrate": False, "random_state": 0, "windows": windows}
    with pytest.warns(UserWarning, match=f"{name}={value} has no effect"):
        IsoCapsNetClassifier(**settings, **{name: value}).fit(graphs, labels)


def test_spectral_matching_beside_the_motif_form():
    _, model = accuracy_on_new_graphs("motif", matching="spectral", stride=4, max_epochs=30)
    assert model.form_weights_[1] > 0


def test_a_motif_form_without_weight_is_not_computed_with():
    graphs, labels = make_planted_graphs(40, 10, random_state=0)[:2]
    model = IsoCapsNetClassifier(max_epochs=2, n_templates=1, random_state=0).fit(graphs, labels)
    model.form_weights_ = (1.0, 0.0)
    model.motif_network_.head.bias.data.fill_(np.nan)
    assert np.isfinite(model.predict_proba(graphs)).all()


# -- weights ------------------------------------------------------------------------------------------------


def draw_scores(codes, strength, rng):
    scores = rng.normal(size=(len(codes), 2))
    scores[np.arange(len(codes)), codes] += strength
    return scores


def test_a_useless_network_has_the_weight_zero_and_leaves_the_temperature_alone():
    n_taken = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        codes = np.arange(80) % 2
        scores, noise = draw_scores(codes, 1.0, rng), draw_scores(codes, 0.0, rng)
        first, second = fit_weights(scores, noise, codes, np.ones(2))
        n_taken += second > 0
        if second == 0:
            assert first == fit_temperature(scores, codes, np.ones(2))
    assert n_taken <= 12  # 2.5 % are expected: weights are not negative, so half of the useless ones cannot be taken


def test_the_weights_minimise_the_log_loss():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=90)
    scores, others = (rng.normal(size=(90, 3)) + strength * np.eye(3)[codes] for strength in (1.0, 2.0))
    weights = np.array(fit_weights(scores, others, codes, np.ones(3)))
    counts = np.bincount(codes)
    targets = ((np.eye(3) * counts + 1) / (counts[:, None] + 3))[codes]

    def loss(first, second):
        total = first * scores + second * others
        return -np.sum(targets * (total - np.log(np.exp(total).sum(axis=1, keepdims=True))))

    best = loss(*weights)
    assert all(best <= loss(*(weights + step)) for step in 0.01 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))


def test_the_first_network_has_the_weight_zero_if_it_says_the_opposite():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 2
    first, second = fit_weights(-draw_scores(codes, 1.0, rng), draw_scores(codes, 3.0, rng), codes, np.ones(2))
    assert first == 0 < second


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_the_scale_of_class_weights_does_not_decide_whether_a_network_is_used(scale):
    rng = np.random.default_rng(1)
    codes = np.arange(80) % 2
    scores, others = draw_scores(codes, 1.0, rng), draw_scores(codes, 0.3, rng)
    weights = fit_weights(scores, others, codes, np.full(2, scale))
    np.testing.assert_allclose(weights, fit_weights(scores, others, codes, np.ones(2)), rtol=1e-3)


def test_one_network_has_weight_even_if_both_say_the_opposite():
    rng = np.random.default_rng(0)
    codes = np.arange(6000) % 2
    first, second = fit_weights(-draw_scores(codes, 2.0, rng), -draw_scores(codes, 2.0, rng), codes, np.ones(2))
    assert first > 0 == second

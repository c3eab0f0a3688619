"""Probabilities mean what they say, and nothing but their scale is touched for it."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax

from isocapsnet import InputError, load_model, make_planted_graphs, save_model
from isocapsnet.models import MODELS, _network
from isocapsnet.models._calibration import fit_slope_and_offset, fit_temperature, halves
from isocapsnet.models._network import NetworkClassifier
from isocapsnet.models._training import train

NETWORKS = [
    name
    for name, model in MODELS.items()
    if issubclass(model, NetworkClassifier) and "calibrate" in model().get_params()
]
PLANTED = make_planted_graphs(40, 12, kernel_size=3, signal_to_noise=4, random_state=0)
QUICK = {"max_epochs": 4, "random_state": 0}


def fit(method="cnn", *, labels=PLANTED.labels, **parameters):
    return MODELS[method](**{**QUICK, **parameters}).fit(PLANTED.graphs, labels)


def log_loss(scores, codes, temperature):
    return -log_softmax(temperature * scores, axis=1)[np.arange(len(codes)), codes].mean()


def draw(rng, temperature, n_graphs=100_000, n_classes=3):
    """Scores, and codes drawn from their softmax at a temperature (by Gumbel's trick)."""
    scores = rng.normal(size=(n_graphs, n_classes))
    return scores, np.argmax(temperature * scores + rng.gumbel(size=scores.shape), axis=1)


@pytest.mark.parametrize("temperature", [0.05, 1.0, 20.0])
def test_the_temperature_that_codes_were_drawn_at_is_found(temperature):
    scores, codes = draw(np.random.default_rng(0), temperature)
    assert fit_temperature(scores, codes, np.ones(3)) == pytest.approx(temperature, rel=0.1)


def test_the_temperature_has_the_least_loss_towards_softened_targets():
    scores, codes = draw(np.random.default_rng(1), 2.0, n_graphs=60)
    found = fit_temperature(scores, codes, np.ones(3))
    own = (np.bincount(codes) + 1) / (np.bincount(codes) + 3)

    def loss(temperature):
        log_p = log_softmax(temperature * scores, axis=1)
        targets = np.where(np.eye(3, dtype=bool)[codes], own[codes, None], (1 - own[codes, None]) / 2)
        return -(targets * log_p).sum()

    assert all(loss(found) <= loss(found * factor) for factor in (0.5, 0.9, 1.1, 2.0))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_probabilities_do_not_depend_on_the_unit_of_the_scores(scale):
    scores, codes = draw(np.random.default_rng(2), 3.0, n_graphs=200)
    assert_allclose(
        scale * fit_temperature(scale * scores, codes, np.ones(3)),
        fit_temperature(scores, codes, np.ones(3)),
        rtol=1e-3,
    )


def test_perfect_wrong_and_equal_scores_have_a_finite_positive_temperature():
    codes = np.arange(20) % 2
    for scores in (np.eye(2)[codes], np.eye(2)[1 - codes], np.zeros((20, 2))):
        assert 0 < fit_temperature(scores, codes, np.ones(2)) < 1e4


def test_class_weights_count_as_in_the_loss():
    rng = np.random.default_rng(3)
    codes = np.repeat([0, 1], [30, 10])
    scores = np.eye(2)[np.where(rng.random(40) < 0.8, codes, 1 - codes)]
    repeated = np.r_[np.arange(40), np.tile(np.arange(30, 40), 2)]
    assert_allclose(
        fit_temperature(scores, codes, np.array([1.0, 3.0])),
        fit_temperature(scores[repeated], codes[repeated], np.ones(2)),
        rtol=0.1,  # the softened target is that of more graphs
    )


def test_halves_hold_out_every_graph_once_and_keep_the_classes_apart():
    codes = np.repeat([0, 1, 2], [21, 10, 4])
    (first, second), (third, fourth) = halves(codes, 0)
    assert sorted([*second, *fourth]) == list(range(35))
    assert_array_equal(np.sort(first), np.sort(fourth))
    assert_array_equal(np.sort(third), np.sort(second))
    assert np.bincount(codes[second]).min() == np.bincount(codes[fourth]).min() == 2


@pytest.mark.parametrize("method", NETWORKS)
def test_calibration_changes_nothing_but_the_scale_of_the_probabilities(method):
    plain, calibrated = (fit(method, calibrate=switch) for switch in (False, True))
    assert plain.temperature_ == 1.0 != calibrated.temperature_ > 0
    for name, tensor in plain.module_.state_dict().items():
        assert torch.equal(tensor, calibrated.module_.state_dict()[name]), name
    assert [row["train_loss"] for row in plain.history_] == [row["train_loss"] for row in calibrated.history_]
    assert_array_equal(plain.predict(PLANTED.graphs), calibrated.predict(PLANTED.graphs))
    order = np.argsort(plain.predict_proba(PLANTED.graphs)[:, 1], kind="stable")
    assert (np.diff(calibrated.predict_proba(PLANTED.graphs)[order, 1]) >= 0).all()  # so ROC AUC stays


@pytest.fixture
def watched(monkeypatch):
    """What a fit does: ``trained`` (indices), ``asked`` (indices), ``given`` (scores, codes, weights) of its parts."""
    seen = {"trained": [], "asked": [], "given": [], "histories": []}

    class Watched(MODELS["cnn"]):
        def _train(self, parts, seed):
            seen["trained"].append(parts.training)
            module, history = super()._train(parts, seed)
            seen["histories"].append(history)
            return module, history

        def _module_scores(self, module, graphs):
            seen["asked"].append(graphs.index)
            return super()._module_scores(module, graphs)

    def note(*given):
        seen["given"].append(given)
        return fit_temperature(*given)

    monkeypatch.setattr(_network, "fit_temperature", note)
    return Watched, seen


def test_each_half_is_scored_by_a_fit_to_the_other_and_the_last_fit_is_to_all(watched):
    estimator, seen = watched
    model = estimator(**QUICK).fit(PLANTED.graphs, PLANTED.labels)
    assert [len(training) for training in seen["trained"]] == [20, 20, 40]
    for training, held_out in zip(seen["trained"], seen["asked"], strict=False):
        assert sorted([*training, *held_out]) == list(range(40))
    assert sorted(np.concatenate(seen["asked"])) == list(range(40))
    [(scores, codes, weights)] = seen["given"]
    assert_array_equal(codes, PLANTED.labels)
    assert_array_equal(weights, [1, 1])
    assert model.temperature_ == fit_temperature(scores, codes, weights)
    # They are not the scores of the fit to all, and are in the order of the graphs.
    own = model._scores(PLANTED.graphs)
    assert not np.allclose(scores, own)
    assert np.corrcoef(np.diff(scores)[:, 0], np.diff(own)[:, 0])[0, 1] > 0.3


def test_a_validation_part_is_used_where_there_is_one(watched):
    estimator, seen = watched
    model = estimator(validation_fraction=0.25, class_weight={0: 1.0, 1: 2.0}, **QUICK)
    model.fit(PLANTED.graphs, PLANTED.labels)
    assert [len(training) for training in seen["trained"]] == [30]
    [held_out], [(scores, codes, weights)] = seen["asked"], seen["given"]
    assert sorted([*seen["trained"][0], *held_out]) == list(range(40))
    assert_array_equal(codes, PLANTED.labels[held_out])
    assert_array_equal(weights, [1, 2])
    assert_allclose(scores, model._scores(PLANTED.graphs[held_out]), rtol=1e-4, atol=1e-5)


def test_unlabelled_graphs_train_in_every_part_and_have_no_scores(watched, monkeypatch):
    _, seen = watched
    trained = []

    def watched_train(module, criterion, optimizer, graphs, *rest, **settings):
        trained.append(graphs.index)
        return train(module, criterion, optimizer, graphs, *rest, **settings)

    monkeypatch.setattr(_network, "train", watched_train)
    MODELS["sdbn"](**QUICK).fit(PLANTED.graphs[:20], PLANTED.labels[:20], X_unlabeled=PLANTED.graphs[20:])
    assert [len(index) for index in trained] == [30, 30, 40]
    assert all(set(range(20, 40)) <= set(index) for index in trained)
    assert len(seen["given"][0][0]) == 20


@pytest.mark.parametrize("counts", [(37, 3), (30, 8, 2)])
def test_a_class_too_small_to_halve_is_said_and_leaves_the_temperature_at_one(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    with pytest.warns(UserWarning, match=f"smallest class has {min(counts)} graphs"):
        assert fit(labels=labels).temperature_ == 1.0


def test_the_smallest_class_that_can_be_halved_is():
    assert fit(labels=np.repeat([0, 1], [36, 4])).temperature_ != 1.0


def test_three_classes_keep_their_most_probable_class():
    labels = np.arange(40) % 3
    plain, calibrated = (fit(labels=labels, calibrate=switch) for switch in (False, True))
    assert calibrated.temperature_ != 1.0
    assert_array_equal(plain.predict(PLANTED.graphs), calibrated.predict(PLANTED.graphs))


def test_the_same_seed_has_the_same_temperature_and_another_seed_another():
    assert fit().temperature_ == fit().temperature_ != fit(random_state=1).temperature_


def test_a_generator_is_drawn_from_once_with_and_without_calibration():
    first, second = np.random.default_rng(3), np.random.default_rng(3)
    plain, calibrated = fit(random_state=first, calibrate=False), fit(random_state=second)
    assert first.integers(1000) == second.integers(1000)
    assert_array_equal(plain.transform(PLANTED.graphs), calibrated.transform(PLANTED.graphs))


def test_the_temperature_is_saved_with_the_switch(tmp_path):
    model = fit()
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.temperature_ == model.temperature_
    assert loaded.calibrate is True
    assert load_model(save_model(fit(calibrate=False), tmp_path / "plain")).calibrate is False


def test_the_published_variant_is_never_calibrated():
    model = fit("isocapsnet-released", kernel_size=3, decoder_sizes=(8,), max_epochs=2)
    assert model.temperature_ == 1.0
    assert "calibrate" not in model.get_params()


class Count:
    """Counts epochs."""

    epochs = 0

    def on_epoch_end(self, history):
        self.epochs += 1


class Tied(Count):
    """Cannot be copied."""

    def __deepcopy__(self, memory):
        raise TypeError("tied to its place")


def test_the_fits_that_calibrate_have_callbacks_of_their_own():
    count, method, epochs = Count(), Count(), []
    fit(callbacks=[count, method.on_epoch_end, lambda history: epochs.append(history[-1]["epoch"])])
    assert count.epochs == method.epochs == QUICK["max_epochs"]
    assert epochs == 3 * list(range(1, QUICK["max_epochs"] + 1))  # a function is called in all of the fits
    fit(callbacks=[Tied()], calibrate=False)
    with pytest.raises(InputError, match=r"callbacks cannot be copied .*calibrate=False"):
        fit(callbacks=[Tied()])


def test_a_callback_that_stops_the_training_also_stops_the_fits_that_calibrate(watched):
    estimator, seen = watched
    model = estimator(**QUICK, callbacks=[lambda history: len(history) == 2]).fit(PLANTED.graphs, PLANTED.labels)
    assert len(model.history_) == 2
    assert [len(history) for history in seen["histories"]] == [2, 2, 2]
    assert model.temperature_ != fit().temperature_


def test_the_fits_that_calibrate_print_nothing(capsys):
    fit(verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == 4


class DivergesInParts(MODELS["cnn"]):
    """Spoils the weights in every fit but the one to all graphs."""

    def _prepare(self, module, graphs):
        if len(graphs) < len(PLANTED.graphs):
            for parameter in module.parameters():
                parameter.data.fill_(float("nan"))


def test_a_part_that_diverges_is_said_and_leaves_the_temperature_at_one():
    with pytest.warns(UserWarning, match="not calibrated"):
        model = DivergesInParts(**QUICK).fit(PLANTED.graphs, PLANTED.labels)
    assert model.temperature_ == 1.0
    assert_array_equal(model.transform(PLANTED.graphs), fit(calibrate=False).transform(PLANTED.graphs))


def test_probabilities_of_graphs_that_did_not_train_gain_from_calibration():
    planted = make_planted_graphs(150, 12, kernel_size=3, signal_to_noise=3, random_state=1)
    settings = {"n_templates": 2, "kernel_size": 3, "decoder_sizes": (16,), "learning_rate": 3e-3, "max_epochs": 25}
    model = MODELS["isocapsnet"](**settings, windows="contiguous", random_state=0).fit(
        planted.graphs[:100], planted.labels[:100]
    )
    scores, labels = model._scores(planted.graphs[100:]), planted.labels[100:]
    before, after = (log_loss(scores, labels, temperature) for temperature in (1.0, model.temperature_))
    assert after < 0.7 * before


def test_slope_and_offset_recover_the_sigmoid_that_made_the_labels():
    rng = np.random.default_rng(0)
    decision = rng.normal(scale=0.01, size=20_000)
    codes = (rng.random(20_000) < 1 / (1 + np.exp(-(200 * decision - 0.7)))).astype(int)
    slope, offset = fit_slope_and_offset(np.column_stack([-decision, decision]), codes, np.ones(2))
    assert_allclose(2 * slope, 200, rtol=0.1)
    assert_allclose(offset[1] - offset[0], -0.7, atol=0.1)


def test_slope_never_turns_the_ranking_round():
    decision = np.linspace(-1, 1, 20)
    slope, _ = fit_slope_and_offset(np.column_stack([-decision, decision]), (decision < 0).astype(int), np.ones(2))
    assert 0 < slope < 0.01


def test_slope_of_perfect_scores_gives_platts_targets():
    # Ten graphs a class and no error: Platt's target is (10 + 1) / (10 + 2), whose log-odds are ln 11.
    codes = np.repeat([0, 1], 10)
    slope, _ = fit_slope_and_offset(np.eye(2)[codes], codes, np.ones(2))
    assert_allclose(slope, np.log(11), rtol=1e-3)

"""IsoCapsNetClassifier: what only this estimator does. The contract is checked in tests/models."""

import logging

import numpy as np
import pytest
import torch

from isocapsnet import InputError, IsoCapsNetClassifier, functional, make_planted_graphs
from isocapsnet.models import MODELS, _batches, _device, _network
from isocapsnet.models._training import TrainingDivergedError
from tests.functional.references import brute_force_match

QUICK = {"max_epochs": 3, "decoder_sizes": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def planted():
    return make_planted_graphs(40, 12, kernel_size=4, signal_to_noise=8, random_state=0)


@pytest.fixture(scope="module")
def fitted(planted):
    return IsoCapsNetClassifier(
        windows="contiguous", n_templates=2, kernel_size=3, validation_fraction=0.2, **QUICK
    ).fit(planted.graphs, planted.labels)


def test_transform_gives_the_capsules_whose_lengths_order_the_probabilities(fitted, planted):
    capsules = fitted.transform(planted.graphs).reshape(-1, 2, 16)
    lengths = np.linalg.norm(capsules, axis=2)
    np.testing.assert_array_equal(lengths.argmax(1), fitted.predict_proba(planted.graphs).argmax(1))
    scores = np.exp(fitted.temperature_ * lengths)
    np.testing.assert_allclose(fitted.predict_proba(planted.graphs), scores / scores.sum(1, keepdims=True), atol=1e-5)


def test_match_reports_scores_and_permutations_of_the_scaled_graphs(fitted, planted):
    matches = fitted.match(planted.graphs[:2])
    assert matches.scores.shape == matches.permutations.shape == (2, 2, 10, 10)
    scaled = fitted.scaler_.transform(planted.graphs[1])
    expected = 1 - brute_force_match(scaled, fitted.templates_[0])
    np.testing.assert_allclose(matches.scores[1, 0], expected, atol=1e-4)
    assert matches.permutations.max() < len(functional.permutation_table(3))


@pytest.mark.parametrize("scaling", ["std", "log"])
def test_reconstruction_comes_back_in_original_units(planted, scaling):
    graphs = 1000 * planted.graphs
    model = IsoCapsNetClassifier(scaling=scaling, **QUICK).fit(graphs, planted.labels)
    drawn = model.reconstruct(graphs[:3])
    assert drawn.shape == (3, 12, 12)
    output = next(model._forward(graphs[:3])).reconstruction.cpu().numpy()
    np.testing.assert_allclose(drawn, model.scaler_.inverse_transform(output))


def test_reconstruction_learns_to_draw_the_graphs(planted):
    model = IsoCapsNetClassifier(max_epochs=150, learning_rate=3e-3, validation_fraction=0, random_state=0)
    model.set_params(reconstruction_weight=0.1, decoder_sizes=(64,), tolerance=0).fit(planted.graphs, planted.labels)
    error = np.linalg.norm(model.reconstruct(planted.graphs) - planted.graphs, axis=(1, 2))
    spread = np.linalg.norm(planted.graphs - planted.graphs.mean(), axis=(1, 2))
    assert error.mean() < 0.8 * spread.mean()


def test_without_reconstruction_there_is_no_decoder(planted):
    model = IsoCapsNetClassifier(reconstruction_weight=0, **QUICK).fit(planted.graphs, planted.labels)
    assert model.module_.decoder is None
    with pytest.raises(InputError, match="no decoder"):
        model.reconstruct(planted.graphs)


def test_unlabelled_graphs_take_part_in_the_reconstruction_alone(planted):
    extra = planted.graphs[:10] + 5
    plain = IsoCapsNetClassifier(**QUICK).fit(planted.graphs, planted.labels)
    more = IsoCapsNetClassifier(**QUICK).fit(planted.graphs, planted.labels, X_unlabeled=extra)
    assert not np.array_equal(plain.transform(planted.graphs), more.transform(planted.graphs))
    blind = {**QUICK, "reconstruction_weight": 1e-12, "batch_size": 100}
    plain = IsoCapsNetClassifier(**blind).fit(planted.graphs, planted.labels)
    more = IsoCapsNetClassifier(**blind).fit(planted.graphs, planted.labels, X_unlabeled=extra)
    np.testing.assert_allclose(plain.transform(planted.graphs), more.transform(planted.graphs), atol=1e-5)
    with pytest.raises(InputError, match="X_unlabeled holds graphs of 5 nodes"):
        IsoCapsNetClassifier(**QUICK).fit(planted.graphs, planted.labels, X_unlabeled=np.zeros((2, 5, 5)))


@pytest.mark.parametrize("method", ["isocapsnet", "capsnet"])
def test_unlabelled_graphs_without_a_reconstruction_are_left_out_with_a_warning(planted, method):
    settings = {**QUICK, "reconstruction_weight": 0, "batch_size": 16}
    plain = MODELS[method](**settings).fit(planted.graphs, planted.labels)
    with pytest.warns(UserWarning, match="10 unlabelled graphs .* without a decoder"):
        more = MODELS[method](**settings).fit(planted.graphs, planted.labels, X_unlabeled=planted.graphs[:10] + 5)
    np.testing.assert_array_equal(plain.transform(planted.graphs), more.transform(planted.graphs))


def test_early_stopping_keeps_the_best_epoch_of_the_validation_part(planted):
    model = IsoCapsNetClassifier(max_epochs=60, patience=3, learning_rate=0.02, decoder_sizes=(8,), random_state=0)
    model.set_params(validation_fraction=0.15, device="cpu").fit(planted.graphs, planted.labels)
    losses = [row["valid_loss"] for row in model.history_]
    assert len(losses) < 60
    assert np.argmin(losses) < len(losses) - 1
    _, validation = model._split(np.asarray(planted.labels), seed=0)
    with torch.inference_mode():
        graphs = torch.from_numpy(model.scaler_.transform(planted.graphs[validation]))
        criterion = model._build_criterion(torch.ones(2))
        loss = criterion(model.module_(graphs), torch.from_numpy(planted.labels[validation]))
    assert loss.item() == pytest.approx(min(losses), rel=1e-3)


def test_training_stops_when_every_graph_is_on_the_right_side_of_the_margins(planted):
    settings = {"max_epochs": 200, "learning_rate": 3e-3, "decoder_sizes": (8,), "random_state": 0}
    settings["windows"] = "contiguous"
    model = IsoCapsNetClassifier(tolerance=1e-3, **settings).fit(planted.graphs, planted.labels)
    lengths = np.linalg.norm(model.transform(planted.graphs).reshape(-1, 2, 16), axis=2)
    own, other = (lengths[np.arange(40), labels] for labels in (planted.labels, 1 - planted.labels))
    assert len(model.history_) < 200
    assert own.min() > 0.8
    assert other.max() < 0.25
    again = IsoCapsNetClassifier(tolerance=0, **{**settings, "max_epochs": len(model.history_) + 1})
    assert len(again.fit(planted.graphs, planted.labels).history_) == len(model.history_) + 1


def test_validation_part_is_stratified_and_disjoint():
    model = IsoCapsNetClassifier(validation_fraction=0.25)
    model.classes_ = np.array([0, 1])
    codes = np.repeat([0, 1], [40, 20])
    training, validation = model._split(codes, seed=3)
    assert sorted([*training, *validation]) == list(range(60))
    assert np.bincount(codes[validation]).tolist() == [10, 5]


def test_a_class_too_small_for_a_validation_part_is_said(planted):
    labels = np.r_[np.zeros(38, dtype=int), 1, 1]
    with pytest.warns(UserWarning, match="smallest class has 2 graphs"):
        model = IsoCapsNetClassifier(validation_fraction=0.15, **QUICK).fit(planted.graphs, labels)
    assert model.temperature_ == 1.0


def test_scaling_of_counts_is_logarithmic_and_learned_from_edges_alone():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 100_000, size=(10, 6, 6)).astype(float)
    counts[:, np.arange(6), np.arange(6)] = 1e9
    scaler = _network.fit_scaler(counts, "auto")
    edges = ~np.eye(6, dtype=bool)
    assert scaler.logarithm
    assert scaler.transform(counts)[:, edges].std() == pytest.approx(1, rel=1e-4)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(counts)), counts, rtol=1e-4)
    correlations = rng.uniform(-1, 1, size=(10, 6, 6))
    assert not _network.fit_scaler(correlations, "auto").logarithm
    assert _network.fit_scaler(correlations, "std").transform(correlations)[:, edges].std() == pytest.approx(
        1, rel=1e-4
    )
    assert _network.fit_scaler(np.ones((3, 4, 4)), "std").scale == 1.0


def test_streamed_graphs_train_the_same_model(planted, monkeypatch, tmp_path):
    resident = IsoCapsNetClassifier(windows="contiguous", batch_size=100, **QUICK).fit(planted.graphs, planted.labels)
    monkeypatch.setattr(_batches, "RESIDENT_BYTES", 0)
    np.save(tmp_path / "graphs.npy", planted.graphs)
    mapped = np.load(tmp_path / "graphs.npy", mmap_mode="r")
    streamed = IsoCapsNetClassifier(windows="contiguous", batch_size=100, **QUICK).fit(mapped, planted.labels)
    np.testing.assert_allclose(resident.predict_proba(planted.graphs), streamed.predict_proba(mapped), atol=1e-4)


def test_size_is_logged_and_a_model_too_large_is_refused_with_a_suggestion(planted, caplog, monkeypatch):
    with caplog.at_level(logging.INFO, logger="isocapsnet"):
        model = IsoCapsNetClassifier(windows="contiguous", **QUICK).fit(planted.graphs, planted.labels)
    n_parameters = sum(p.numel() for p in model.module_.parameters())
    assert f"{n_parameters:,} parameters" in caplog.text
    monkeypatch.setattr(_device, "available_bytes", lambda device: 1000)
    with pytest.raises(InputError, match=r'needs .* GB .* GB free; use weight_sharing="template"'):
        IsoCapsNetClassifier(**QUICK).fit(planted.graphs, planted.labels)


def test_divergence_stops_with_a_sentence(planted):
    with pytest.raises(TrainingDivergedError, match=r"epoch \d: the loss became (nan|inf).*learning_rate"):
        IsoCapsNetClassifier(learning_rate=1e30, **QUICK).fit(planted.graphs, planted.labels)


def test_a_fit_that_predicts_one_class_warns():
    with pytest.warns(UserWarning, match="predicts class (0|1) for every training graph"):
        IsoCapsNetClassifier(**QUICK).fit(np.ones((20, 8, 8)), np.arange(20) % 2)


def test_user_callbacks_are_called(planted):
    class Count:
        epochs = 0

        def on_epoch_end(self, history):
            Count.epochs += 1

    IsoCapsNetClassifier(callbacks=[Count()], calibrate=False, **QUICK).fit(planted.graphs, planted.labels)
    assert Count.epochs == 3
    IsoCapsNetClassifier(callbacks=[Count()], **QUICK).fit(planted.graphs, planted.labels)
    assert Count.epochs == 3 + 9  # the two fits that calibrate have copies


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"kernel_size": 13}, "kernel_size=13 is larger than the graphs, which have 12 nodes"),
        ({"kernel_size": 0}, "kernel_size=0 is out of range"),
        ({"gamma": 2.0}, "gamma=2.0 is out of range"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 is out of range"),
        ({"max_epochs": 0}, "max_epochs=0 is out of range"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0 is out of range"),
        ({"matching": "quick"}, "matching='quick' is unknown; choose one of 'exact', 'spectral'"),
        ({"weight_sharing": "all"}, "weight_sharing='all' is unknown"),
        ({"scaling": "max"}, "scaling='max' is unknown"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"routing_iterations": 0, "residual": False}, "leave no class capsules"),
        ({"class_weight": {0: 1.0, 7: 2.0}}, "class_weight="),
    ],
)
def test_bad_parameters_get_one_sentence(planted, parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        IsoCapsNetClassifier(**{**QUICK, **parameters}).fit(planted.graphs, planted.labels)

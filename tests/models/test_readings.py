"""Readings of the paper that are not the defaults: orthogonal poses, a residual MLP per class, routing over windows."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from isocapsnet import IsoCapsNetClassifier, load_model, make_planted_graphs, save_model
from isocapsnet.explanation.windows import window_evidence
from isocapsnet.functional import permutation_matrices
from isocapsnet.nn import IsoCapsNet

N_NODES, K, C = 7, 3, 2
GAMMA = -0.1
READINGS = {
    "orthogonal": {"matching": "spectral", "projection": "orthogonal"},
    "relaxed": {"matching": "spectral", "projection": "none"},
    "per class": {"residual_per_class": True},
    "over windows": {"routing_over": "windows"},
}
READINGS["to the letter"] = READINGS["orthogonal"] | READINGS["per class"] | READINGS["over windows"]
QUICK = {"windows": "contiguous", "kernel_size": K, "max_epochs": 3, "decoder_sizes": (8,), "random_state": 0}


@pytest.fixture(scope="module")
def planted():
    return make_planted_graphs(24, 9, kernel_size=3, signal_to_noise=8, random_state=0)


def random_module(**reading):
    """A network in float64 with a residual that is not zero."""
    torch.manual_seed(0)
    module = IsoCapsNet(N_NODES, 2, n_templates=C, kernel_size=K, gamma=GAMMA, decoder_sizes=(4,), **reading).double()
    for parameter in module.residual.parameters():
        parameter.data.normal_(std=0.5)
    return module


def random_graphs(n_graphs=4):
    graphs = np.random.default_rng(0).normal(size=(n_graphs, N_NODES, N_NODES))
    return graphs + graphs.swapaxes(1, 2)


# -- slow code from the equations ------------------------------------------------------------------------------


def orthogonal_pose(template, window):
    """U₂SU₁ᵀ of the symmetrised matrices, with the signs that bring it closest to the identity."""
    first, second = (np.linalg.eigh((matrix + matrix.T) / 2)[1] for matrix in (template, window))
    signs = np.array([1.0 if first[:, i] @ second[:, i] >= 0 else -1.0 for i in range(len(template))])
    return second @ np.diag(signs) @ first.T


def squash(x):
    length = np.linalg.norm(x)
    return length**2 / (1 + length**2) * x / length


def slow_capsules(module, graph, over):
    """Eq. 1 to 9 for one graph: ``(n_classes, capsule_size)``."""
    templates = module.isomorphic.templates.detach().numpy()
    n = N_NODES - K + 1
    scores, primary = np.empty((C, n * n)), np.empty((C, n * n, K * K))
    for i, template in enumerate(templates):
        for window in range(n * n):
            s, t = divmod(window, n)
            part = graph[s : s + K, t : t + K]
            pose = orthogonal_pose(template, part)
            scores[i, window] = 1 - np.linalg.norm(pose @ template @ pose.T - part)
            primary[i, window] = pose.ravel() / np.linalg.norm(pose) * scores[i, window]
    weight = module.digit.weight.detach().numpy()  # (Y, c, N, k², d)
    votes = np.einsum("cnp,ycnpd->ycnd", primary, weight).reshape(2, C * n * n, -1)
    beta = np.zeros(votes.shape[:2])
    for _ in range(3):
        leaky = np.exp(beta) / (1 + np.exp(beta).sum(axis=0))
        alpha = softmax(beta, axis=1) if over == "windows" else leaky
        capsules = [squash((C * n * n) ** -0.5 * alpha[j] @ votes[j]) for j in range(2)]
        beta = beta + np.stack([votes[j] @ capsules[j] for j in range(2)])
    features = (0.01 * n * n * softmax(scores, axis=1)).ravel()
    for j, network in enumerate(module.residual.mlp):
        hidden = features
        for i, layer in enumerate(layer for layer in network if isinstance(layer, torch.nn.Linear)):
            hidden = layer.weight.detach().numpy() @ (hidden if i == 0 else np.maximum(hidden, 0))
            hidden = hidden + layer.bias.detach().numpy()
        capsules[j] = capsules[j] + hidden
    return np.stack(capsules)


@pytest.mark.parametrize("over", ["classes", "windows"])
def test_the_network_with_orthogonal_poses_and_a_residual_per_class_is_that_of_the_equations(over):
    module = random_module(matching="spectral", projection="orthogonal", residual_per_class=True, routing_over=over)
    graphs = random_graphs()
    with torch.no_grad():
        capsules = module(torch.from_numpy(graphs)).capsules.numpy()
    assert_allclose(capsules, [slow_capsules(module, graph, over) for graph in graphs], rtol=1e-9, atol=1e-12)


def test_the_distance_of_an_orthogonal_pose_is_that_of_the_eigenvalues():
    module = random_module(matching="spectral", projection="orthogonal")
    with torch.no_grad():
        templates = module.isomorphic.templates
        templates.copy_(templates + templates.transpose(1, 2))
        graphs = torch.from_numpy(random_graphs())
        match = module.isomorphic(graphs)
    eye = torch.eye(K, dtype=torch.float64).expand_as(match.matrix)
    torch.testing.assert_close(match.matrix @ match.matrix.transpose(-1, -2), eye)
    for s in range(N_NODES - K + 1):  # windows on the diagonal are symmetric
        own = torch.linalg.eigvalsh(graphs[:, s : s + K, s : s + K])
        expected = (own[:, None] - torch.linalg.eigvalsh(templates)).norm(dim=-1)
        torch.testing.assert_close(match.distance[:, :, s, s], expected)


def test_residuals_per_class_share_no_weights():
    module = random_module(residual_per_class=True)
    capsules = module.residual(torch.from_numpy(random_graphs()[:, None].repeat(C, axis=1)[..., :5, :5].copy()))
    capsules[:, 0].sum().backward()
    first, second = module.residual.mlp
    assert all(parameter.grad.abs().sum() > 0 for parameter in first.parameters())
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in second.parameters())


@pytest.mark.parametrize("reading", READINGS)
def test_every_parameter_receives_a_gradient(reading):
    module = random_module(**READINGS[reading])
    output = module(torch.from_numpy(random_graphs()))
    (output.capsules.square().sum() + output.reconstruction.sum()).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in module.parameters())


# -- from the estimator ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
def test_the_estimator_passes_it_on_and_keeps_it_in_files(reading, planted, tmp_path):
    model = IsoCapsNetClassifier(**QUICK, **READINGS[reading]).fit(planted.graphs, planted.labels)
    plain = IsoCapsNetClassifier(**QUICK).fit(planted.graphs, planted.labels)
    assert not np.array_equal(model.predict_proba(planted.graphs), plain.predict_proba(planted.graphs))
    loaded = load_model(save_model(model, tmp_path / "model"))
    assert loaded.get_params() == model.get_params()
    assert_array_equal(loaded.predict_proba(planted.graphs), model.predict_proba(planted.graphs))


@pytest.mark.parametrize("reading", READINGS)
def test_evidence_of_windows_sums_to_the_margins_of_the_model_itself(reading, planted):
    model = IsoCapsNetClassifier(**QUICK, **READINGS[reading]).fit(planted.graphs, planted.labels)
    evidence = window_evidence(model, planted.graphs)
    total = evidence.evidence.sum(axis=(2, 3, 4)) + evidence.unattributed
    lengths = np.linalg.norm(model.transform(planted.graphs).reshape(-1, 2, 16), axis=2)
    assert_allclose(total[:, 0], lengths[:, 1] - lengths[:, 0], atol=1e-4)


def test_a_match_has_the_permutations_nearest_to_the_poses(planted):
    settings = {**QUICK, **READINGS["orthogonal"]}
    model = IsoCapsNetClassifier(**settings).fit(planted.graphs, planted.labels)
    matches = model.match(planted.graphs[:2])
    scaled = torch.from_numpy(model.scaler_.transform(planted.graphs[:2]))
    with torch.no_grad():
        poses = model.module_.isomorphic(scaled.to(model.module_.isomorphic.templates)).matrix.cpu()
    every = permutation_matrices(torch.arange(6), K).to(poses.dtype)
    agreement = torch.einsum("bcstij,pij->bcstp", poses, every).numpy()
    chosen = np.take_along_axis(agreement, matches.permutations[..., None], axis=-1)[..., 0]
    assert_allclose(chosen, agreement.max(axis=-1), atol=1e-6)


def test_the_permutation_stays_the_default_pose_and_the_residual_shared(planted):
    defaults = IsoCapsNetClassifier()
    assert (defaults.projection, defaults.residual_per_class, defaults.routing_over) == (
        "permutation",
        False,
        "classes",
    )
    given = IsoCapsNetClassifier(**QUICK, matching="spectral", projection="permutation")
    assert_array_equal(
        given.fit(planted.graphs, planted.labels).predict_proba(planted.graphs),
        IsoCapsNetClassifier(**QUICK, matching="spectral")
        .fit(planted.graphs, planted.labels)
        .predict_proba(planted.graphs),
    )


@pytest.mark.parametrize(
    "parameters", [{"projection": "orthogonal"}, {"residual": False, "residual_per_class": True}], ids=str
)
def test_a_reading_without_effect_is_named_in_a_warning(parameters, planted):
    with pytest.warns(UserWarning, match=f"{list(parameters)[-1]}=.* has no effect"):
        IsoCapsNetClassifier(**QUICK, **parameters).fit(planted.graphs, planted.labels)

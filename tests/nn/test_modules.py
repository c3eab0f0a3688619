"""The modules: shapes, gradients to every parameter, options."""

import itertools

import pytest
import torch

from isocapsnet import InputError, functional
from isocapsnet.nn import (
    CapsuleLoss,
    DigitCapsules,
    GraphDecoder,
    IsoCapsNet,
    IsomorphicLayer,
    PrimaryCapsules,
    ReleasedIsoCapsNet,
    ResidualCapsules,
    SpectralIsomorphicLayer,
)

OPTIONS = itertools.product(
    ["exact", "spectral"], ["window", "template"], [None, 5, "blocks"], [True, False], [True, False]
)


@pytest.mark.parametrize(("matching", "weight_sharing", "primary_size", "residual", "reconstruct"), OPTIONS)
def test_every_parameter_receives_a_gradient(matching, weight_sharing, primary_size, residual, reconstruct):
    torch.manual_seed(0)
    module = IsoCapsNet(
        9,
        3,
        n_templates=2,
        kernel_size=3,
        matching=matching,
        weight_sharing=weight_sharing,
        primary_size=primary_size,
        residual=residual,
        reconstruct=reconstruct,
        residual_sizes=(16,),
        decoder_sizes=(7,),
    )
    with torch.no_grad():  # the residual's last layer starts at zero, which holds the first one back for one step
        for parameter in module.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    output = module(torch.randn(6, 9, 9))
    assert output.capsules.shape == (6, 3, 16)
    assert (output.reconstruction is None) == (not reconstruct)
    CapsuleLoss(0.1)(output, torch.tensor([0, 1, 2, 0, -1, -1])).backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert (parameter.grad != 0).any(), name


def test_released_module_gives_every_parameter_a_gradient():
    torch.manual_seed(0)
    module = ReleasedIsoCapsNet(7, 2, kernel_size=2, decoder_sizes=(5, 6))
    CapsuleLoss(0.1, squared=True)(module(torch.randn(4, 7, 7)), torch.tensor([0, 1, 0, 1])).backward()
    assert all((p.grad != 0).any() for p in module.parameters())


def test_classes_start_different():
    """With one W for all classes the class capsules would stay identical for ever."""
    torch.manual_seed(0)
    capsules = IsoCapsNet(8, 2, kernel_size=3)(torch.randn(2, 8, 8)).capsules
    assert not torch.allclose(capsules[:, 0], capsules[:, 1])


def test_shared_weights_are_blind_to_position_and_window_weights_are_not():
    torch.manual_seed(0)
    scores = torch.zeros(2, 1, 3, 3)
    scores[0, 0, 0, 0] = scores[1, 0, 2, 2] = 1.0
    primary = functional.primary_capsules(scores, torch.zeros(2, 1, 3, 3, dtype=torch.long), 2, -0.1)
    shared = DigitCapsules(2, 1, 9, 4, weight_sharing="template")(primary)
    torch.testing.assert_close(shared[0], shared[1])
    apart = DigitCapsules(2, 1, 9, 4, weight_sharing="window")(primary)
    assert not torch.allclose(apart[0], apart[1])


def test_thousands_of_windows_do_not_saturate_the_class_capsules():
    torch.manual_seed(0)
    lengths = functional.safe_norm(IsoCapsNet(60, 2)(torch.randn(4, 60, 60)).capsules)
    assert (lengths < 0.9).all()


def test_residual_starts_at_zero():
    residual = ResidualCapsules(2, 1, 9)
    assert (residual(torch.randn(3, 1, 3, 3)) == 0).all()


@pytest.mark.parametrize("residual_input", ["softmax", "scores"])
def test_residual_input_is_centred_on_a_hundredth(residual_input):
    residual = ResidualCapsules(2, 2, 9, residual_input=residual_input)
    seen = []
    residual.mlp.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    scores = torch.randn(3, 2, 3, 3)
    residual(scores)
    if residual_input == "softmax":
        expected = 0.01 * 9 * scores.flatten(2).softmax(2).flatten(1)
        torch.testing.assert_close(seen[0].mean(), torch.tensor(0.01))
    else:
        expected = 0.01 * scores.flatten(1)
    torch.testing.assert_close(seen[0], expected)


def test_linear_primary_capsules_have_the_score_as_length():
    torch.manual_seed(0)
    layer, primary = IsomorphicLayer(2, 3), PrimaryCapsules(3, primary_size=4)
    match = layer(torch.randn(2, 7, 7))
    capsules = primary(match).expand()
    torch.testing.assert_close(capsules.norm(dim=-1), (1 - match.distance).abs())
    assert capsules.shape[-1] == 4


@pytest.mark.parametrize("projection", ["permutation", "none", "orthogonal"])
def test_spectral_layer_feeds_the_capsules(projection):
    torch.manual_seed(0)
    layer, primary = SpectralIsomorphicLayer(2, 3, projection=projection), PrimaryCapsules(3, gamma=-0.1)
    capsules = primary(layer(torch.randn(2, 7, 7)))
    assert DigitCapsules(2, 2, 25, 9)(capsules).shape == (2, 2, 16)


def test_masked_decoder_sees_the_longest_capsule_only():
    torch.manual_seed(0)
    decoder = GraphDecoder(2, 3, 4, sizes=(5,), masked=True)
    capsules = torch.tensor([[[1.0, 2.0, 3.0], [0.1, 0.1, 0.1]]])
    other = capsules.clone()
    other[0, 1] = -0.2
    torch.testing.assert_close(decoder(capsules), decoder(other))
    assert ((decoder(capsules) > 0) & (decoder(capsules) < 1)).all()


def test_decoder_of_undirected_graphs_has_one_unit_for_both_entries_of_an_edge():
    torch.manual_seed(0)
    decoder = GraphDecoder(2, 3, 5, sizes=(4,), directed=False)
    assert decoder.mlp[-1].out_features == 15 and GraphDecoder(2, 3, 5, sizes=(4,)).mlp[-1].out_features == 25
    drawn, graphs = decoder(torch.randn(2, 2, 3)), torch.randn(2, 5, 5)
    torch.testing.assert_close(drawn, drawn.transpose(1, 2))
    # The loss is the norm of the whole matrix: errors off the diagonal count twice.
    graphs = graphs + graphs.transpose(1, 2)
    error = (graphs - drawn).square()
    squared = 2 * error.triu(diagonal=1).sum(dim=(1, 2)) + error.diagonal(dim1=1, dim2=2).sum(dim=1)
    torch.testing.assert_close(functional.reconstruction_loss(graphs, drawn), squared.sqrt())


def test_loss_is_the_mean_margin_of_labelled_graphs_plus_the_mean_reconstruction_of_all():
    torch.manual_seed(0)
    output = IsoCapsNet(6, 2, kernel_size=2, decoder_sizes=(4,))(torch.randn(4, 6, 6))
    lengths = functional.safe_norm(output.capsules)
    margin = functional.margin_loss(lengths[:3], torch.tensor([0, 1, 1])).mean()
    drawn = functional.reconstruction_loss(output.graphs, output.reconstruction).mean()
    torch.testing.assert_close(CapsuleLoss(0.7)(output, torch.tensor([0, 1, 1, -1])), margin + 0.7 * drawn)


def test_unknown_options_are_refused():
    for option in ("matching", "weight_sharing", "residual_input"):
        with pytest.raises(InputError, match=f"{option}='no'"):
            IsoCapsNet(6, 2, **{option: "no"})

"""Dropout silences something in training, in every method that has it, and nothing when the graph is answered."""

import pytest
import torch

from isocapsnet.models import MODELS

WITH_DROPOUT = [name for name, model in MODELS.items() if "dropout" in model().get_params()]


def logits(module, graphs):
    with torch.no_grad():
        return module(graphs).logits


@pytest.mark.parametrize("method", WITH_DROPOUT)
def test_dropout_acts_in_training_alone(method):
    graphs = torch.randn(6, 12, 12)
    for dropout in (0.0, 0.5):
        torch.manual_seed(0)
        module = MODELS[method](dropout=dropout)._build_module(12, 2)
        assert torch.equal(logits(module, graphs), logits(module, graphs)) == (dropout == 0.0)
        module.eval()
        assert torch.equal(logits(module, graphs), logits(module, graphs))


def test_these_methods_have_it():
    assert set(WITH_DROPOUT) == {
        "isonn", "fastisonn", "cnn", "sdbn", "dgcnn", "gcn", "gin", "diffpool", "brainnetcnn", "bnt",
    }  # fmt: skip

"""Our optimisers are torch's."""

import copy
import pickle
import runpy

import pytest
import torch

from isocapsnet.models import _optimizers


def steps(optimizer, parameter, n=3):
    """The parameter after each of ``n`` steps on a loss, as skorch takes them: with a closure."""
    found = []
    for _ in range(n):

        def closure():
            optimizer.zero_grad()
            loss = (parameter**3).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(parameter.detach().clone())
    return torch.stack(found)


def make(cls, fused):
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 9))
    return cls([parameter], lr=0.1, weight_decay=0.3, fused=fused), parameter


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_those_of_torch_to_the_bit(name, fused):
    expected = steps(*make(getattr(torch.optim, name), fused))
    # torch wraps a class's step when it is first used: ours may be made before and after.
    for names in (vars(_optimizers), runpy.run_path(_optimizers.__file__)):
        assert torch.equal(steps(*make(names[name], fused)), expected)


@pytest.mark.parametrize("travel", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_an_optimiser_goes_on_after_a_journey_as_if_it_had_stayed(travel):
    pair = make(_optimizers.AdamW, True)
    steps(*pair)
    abroad = travel(pair)
    assert torch.equal(steps(*abroad), steps(*pair))

"""Gradients in plain torch, for an operation whose kernel fails in its backward pass only."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def plain_gradients(function: Callable[..., Any], inputs: tuple[Tensor, ...], *grads: Tensor) -> tuple[Tensor, ...]:
    """Gradients for the inputs of ``function``, which is written in torch, from those for its outputs."""
    inputs = tuple(tensor.detach().requires_grad_() for tensor in inputs)
    with torch.enable_grad():
        outputs = function(*inputs)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        agreement = torch.stack([(output * grad).sum() for output, grad in zip(outputs, grads, strict=True)]).sum()
    return torch.autograd.grad(agreement, inputs)

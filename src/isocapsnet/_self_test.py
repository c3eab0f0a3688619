"""The self test of :func:`isocapsnet.doctor`: kernels against plain torch, and a small model from fit to file."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from isocapsnet._doctor import Finding, list_devices

if TYPE_CHECKING:
    from torch import Tensor

# Relative difference of results in float32.
_TOLERANCE = 1e-4


def compare_kernels() -> Iterator[Finding]:
    """Compare fused kernels with plain torch: distances, routed capsules and the gradients of both."""
    import torch

    from isocapsnet.functional.kernels import eager, pick_kernel, pick_routing

    for device in list_devices():
        began = time.perf_counter()
        generator = torch.Generator().manual_seed(0)
        shapes = ((4, 12, 12), (3, 4, 4), (2, 3, 81, 16, 16))  # graphs, templates, weights of 81 windows
        tensors = [0.1 * torch.randn(shape, generator=generator).to(device) for shape in shapes]
        if pick_kernel(*tensors[:2]) is eager or pick_routing(tensors[2]) is None:
            yield Finding("self test", f"kernels on {device}", "slow", "fused kernels are not in use, see above")
            continue
        outcomes = [_match_and_route(tensors, is_fused) for is_fused in (True, False)]
        largest = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(*outcomes, strict=True))
        is_equal = largest < _TOLERANCE
        details = f"fused and plain kernels differ by {largest:.0e} ({time.perf_counter() - began:.1f} s)"
        advice = "" if is_equal else "do not trust fits: install the tested versions of torch, Numba and Triton"
        yield Finding("self test", f"kernels on {device}", "ok" if is_equal else "broken", details, advice)


def _match_and_route(tensors: "list[Tensor]", is_fused: bool) -> "list[Tensor]":
    import torch

    from isocapsnet.functional import isomorphic, kernels, primary_capsules, routing

    graphs, templates, weight = leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    if is_fused:
        matched = isomorphic.isomorphic_match(graphs, templates)
    else:
        matched = isomorphic.match_by(kernels.eager.search, kernels.eager.backward, graphs, templates)
    primary = primary_capsules(1 - matched.distance, matched.permutation, templates.shape[-1], 0.1)
    route = routing.route if is_fused else routing._route_plainly
    capsules = route(primary, weight, 3, (weight.shape[1] * weight.shape[2]) ** -0.5, "classes")
    return [matched.distance.detach(), capsules.detach(), *torch.autograd.grad(capsules.square().sum(), leaves)]


def try_model() -> Iterator[Finding]:
    """Fit, predict, save and load a small model, twice with the same random state."""
    import numpy as np

    from isocapsnet import IsoCapsNetClassifier, load_model, make_planted_graphs, save_model

    for device in list_devices():
        began = time.perf_counter()
        planted = make_planted_graphs(60, 16, random_state=0)
        model = IsoCapsNetClassifier(max_epochs=3, random_state=0, device=device)
        first = model.fit(planted.graphs, planted.labels).predict_proba(planted.graphs)
        with tempfile.TemporaryDirectory() as folder:
            save_model(model, Path(folder) / "model.safetensors")
            loaded = load_model(Path(folder) / "model.safetensors").predict_proba(planted.graphs)
        again = model.fit(planted.graphs, planted.labels).predict_proba(planted.graphs)
        problems = [
            problem
            for problem, is_found in (
                ("probabilities do not add up to 1", not np.allclose(first.sum(axis=1), 1, atol=1e-5)),
                ("the loaded model gives other predictions", not np.allclose(first, loaded, atol=1e-5)),
                ("a second fit gives another result", not np.array_equal(first, again)),
            )
            if is_found
        ]
        details = f"fitted, saved and loaded IsoCapsNet ({time.perf_counter() - began:.1f} s)"
        advice = "report this with the output of isocapsnet.doctor()" if problems else ""
        yield Finding(
            "self test", f"model on {device}", "broken" if problems else "ok", "; ".join(problems) or details, advice
        )

"""Slow references written from the equations, entry by entry; nothing here is shared with the package."""

from itertools import permutations

import numpy as np
import torch


def brute_force_match(graph, template, stride=1):
    """Eq. 1 as it stands: loop over windows and permutation matrices. Returns distance (n, n) in float64."""
    graph, template = np.asarray(graph, dtype=np.float64), np.asarray(template, dtype=np.float64)
    k = len(template)
    n = (len(graph) - k) // stride + 1
    distance = np.empty((n, n))
    for s in range(n):
        for t in range(n):
            window = graph[s * stride : s * stride + k, t * stride : t * stride + k]
            best = np.inf
            for perm in permutations(range(k)):
                P = np.zeros((k, k))
                P[np.arange(k), perm] = 1
                best = min(best, np.linalg.norm(P @ template @ P.T - window))
            distance[s, t] = best
    return distance


def squash(x):
    """‖x‖²/(1+‖x‖²) · x/‖x‖ along the last axis, without any guard."""
    length = (x**2).sum(-1, keepdim=True).sqrt()
    return length**2 / (1 + length**2) * x / length


def leaky_routing(votes, iterations, scale):
    """Eq. 6 and 7 with explicit logits β; votes (B, Y, M, d)."""
    n_graphs, n_classes, n_capsules, _ = votes.shape
    beta = torch.zeros(n_graphs, n_classes, n_capsules, dtype=votes.dtype)
    for _ in range(iterations):
        weights = torch.exp(beta)
        alpha = weights / (1 + weights.sum(1, keepdim=True))
        capsules = squash(scale * (alpha[..., None] * votes).sum(2))
        beta = beta + (votes * capsules[:, :, None]).sum(-1)
    return capsules


class ReleasedProgram:
    """The published program, step by step from the list in the reading notes (one graph, one window at a time)."""

    def __init__(self, template, weight, layers):
        self.template = template  # (k, k)
        self.weight = weight  # (Y, N, k², d)
        self.layers = layers  # [(W, b), (W, b), (W, b)]

    def parameters(self):
        return [self.template, self.weight, *(p for layer in self.layers for p in layer)]

    def primary(self, graph):
        """(N, k²): vec(P*)·d², squashed over its entries, zeros overwritten by -1."""
        k = len(self.template)
        n = len(graph) - k + 1
        rows = []
        for s in range(n):
            for t in range(n):
                window = graph[s : s + k, t : t + k]
                best = None
                for perm in permutations(range(k)):
                    P = torch.zeros(k, k, dtype=graph.dtype)
                    P[torch.arange(k), torch.tensor(perm)] = 1
                    squared = ((P @ self.template @ P.T - window) ** 2).sum()
                    if best is None or squared < best[0]:
                        best = (squared, P)
                capsule = squash(best[1].reshape(-1) * best[0])
                rows.append(torch.where(capsule == 0, torch.full_like(capsule, -1.0), capsule))
        return torch.stack(rows)

    def capsules(self, graph):
        """(Y, d): routing with a softmax over windows, no leak, three iterations."""
        votes = torch.einsum("np,ynpd->ynd", self.primary(graph), self.weight)
        beta = torch.zeros(votes.shape[:2], dtype=graph.dtype)
        for iteration in range(3):
            alpha = torch.softmax(beta, dim=1)
            capsules = squash((alpha[..., None] * votes).sum(1))
            if iteration < 2:
                beta = beta + (votes * capsules[:, None]).sum(-1)
        return capsules

    def loss(self, graphs, targets):
        total = 0.0
        for graph, target in zip(graphs, targets, strict=True):
            capsules = self.capsules(graph)
            lengths = (capsules**2).sum(-1).sqrt()
            for j, length in enumerate(lengths):
                total = total + (
                    torch.clamp(0.9 - length, min=0) ** 2
                    if j == target
                    else 0.5 * torch.clamp(length - 0.1, min=0) ** 2
                )
            mask = torch.zeros_like(capsules)
            mask[lengths.argmax()] = 1
            hidden = (capsules * mask).reshape(-1)
            for i, (weight, bias) in enumerate(self.layers):
                hidden = weight @ hidden + bias
                hidden = torch.relu(hidden) if i < 2 else torch.sigmoid(hidden)
            total = total + 0.0005 * ((hidden.reshape(graph.shape) - graph) ** 2).sum()
        return total / len(graphs)

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
    """The published program, step by step from the list in the reading notes, one graph at a time.

    It works in the dtype of its parameters. Nothing is guarded: what the program leaves undefined is undefined here.
    """

    def __init__(self, template, weight, layers):
        self.template = template  # (k, k)
        self.weight = weight  # (Y, N, k², d)
        self.layers = layers  # [(W, b), (W, b), (W, b)]

    @classmethod
    def like(cls, module):
        """The program with the weights of our module."""
        linears = [layer for layer in module.decoder.mlp if isinstance(layer, torch.nn.Linear)]

        def copied(parameter):
            return parameter.detach().clone().requires_grad_()

        return cls(
            copied(module.isomorphic.templates[0]),
            copied(module.weight[:, 0]),
            [(copied(layer.weight), copied(layer.bias)) for layer in linears],
        )

    def parameters(self):
        return [self.template, self.weight, *(p for layer in self.layers for p in layer)]

    def search(self, graph):
        """Winning permutations and squared distances, both (N,).

        PKPᵀ by two products; the difference with windows along one axis and permutations along the next; its Frobenius
        norm; the square; the negative; the first maximum.
        """
        k = len(self.template)
        every = torch.stack([torch.eye(k, dtype=graph.dtype)[list(p)] for p in permutations(range(k))])
        permuted = torch.matmul(torch.matmul(every, self.template), every.transpose(1, 2))
        windows = graph.unfold(0, k, 1).unfold(1, k, 1).reshape(-1, 1, k, k)
        feature = -(torch.norm(windows - permuted, p="fro", dim=(2, 3)) ** 2)
        best = torch.max(feature, dim=1)
        return best.indices, -best.values

    def primary(self, graph):
        """(N, k²): vec(P*)·d², squashed over its entries, zeros overwritten by -1."""
        k = len(self.template)
        winners, squared = self.search(graph)
        table = list(permutations(range(k)))
        poses = torch.stack([torch.eye(k, dtype=graph.dtype)[list(table[winner])].reshape(-1) for winner in winners])
        capsules = squash(poses * squared[:, None])
        return torch.where(capsules == 0, torch.full_like(capsules, -1.0), capsules)

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

    def lengths(self, graph):
        """(Y,): the longest class capsule is the prediction."""
        return (self.capsules(graph) ** 2).sum(-1).sqrt()

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
                hidden = torch.relu(hidden) if i < len(self.layers) - 1 else torch.sigmoid(hidden)
            total = total + 0.0005 * ((hidden.reshape(graph.shape) - graph) ** 2).sum()
        return total / len(graphs)

    def optimizer(self, learning_rate=0.01, weight_decay=5e-4):
        return torch.optim.Adam(self.parameters(), lr=learning_rate, weight_decay=weight_decay)

    def step(self, optimizer, graphs, targets):
        """One step of the optimizer; the loss before it."""
        optimizer.zero_grad()
        loss = self.loss(graphs, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

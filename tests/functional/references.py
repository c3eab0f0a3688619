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
    """The published program, step by step from the list in the reading notes, a batch at a time.

    Every tensor is in memory at once, and torch differentiates it. It works in the dtype of its parameters. Nothing is
    guarded: what the program leaves undefined is undefined here.
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

    def search(self, graphs):
        """Winning permutations and squared distances, both (B, N).

        PKPᵀ by two products; the difference with windows along one axis and permutations along the next; its Frobenius
        norm; the square; the negative; the first maximum.
        """
        k = len(self.template)
        every = torch.stack([torch.eye(k, dtype=graphs.dtype)[list(p)] for p in permutations(range(k))])
        permuted = torch.matmul(torch.matmul(every, self.template), every.transpose(1, 2))
        windows = graphs.unfold(1, k, 1).unfold(2, k, 1).reshape(-1, 1, k, k)
        feature = -(torch.norm(windows - permuted, p="fro", dim=(2, 3)) ** 2)
        best = torch.max(feature, dim=1)
        return best.indices.view(len(graphs), -1), -best.values.view(len(graphs), -1)

    def primary(self, graphs):
        """(B, N, k²): vec(P*)·d², squashed over its entries, zeros overwritten by -1."""
        k = len(self.template)
        winners, squared = self.search(graphs)
        poses = torch.stack([torch.eye(k, dtype=graphs.dtype)[list(p)].reshape(-1) for p in permutations(range(k))])
        capsules = self.squash(poses[winners] * squared[..., None])
        return torch.where(capsules == 0, torch.full_like(capsules, -1.0), capsules)

    def squash(self, x):
        squared = (x**2).sum(dim=-1, keepdim=True)
        return squared / (1 + squared) * x / torch.sqrt(squared)

    def capsules(self, graphs):
        """(B, Y, d): routing with a softmax over windows, no leak, three iterations."""
        votes = self.primary(graphs)[None, :, :, None, :] @ self.weight[:, None]  # (Y, B, N, 1, d)
        beta = torch.zeros_like(votes)
        for iteration in range(3):
            alpha = torch.softmax(beta, dim=2)
            capsules = self.squash((alpha * votes).sum(dim=2, keepdim=True))
            if iteration < 2:
                beta = beta + (votes * capsules).sum(dim=-1, keepdim=True)
        return capsules[:, :, 0, 0].transpose(0, 1)

    def lengths(self, graphs):
        """(B, Y): the longest class capsule is the prediction."""
        return (self.capsules(graphs) ** 2).sum(dim=-1) ** 0.5

    def loss(self, graphs, targets):
        capsules = self.capsules(graphs)
        lengths = (capsules**2).sum(dim=-1) ** 0.5
        present = torch.eye(2, dtype=graphs.dtype)[targets]
        margin = present * torch.relu(0.9 - lengths) ** 2 + 0.5 * (1 - present) * torch.relu(lengths - 0.1) ** 2
        predicted = torch.eye(2, dtype=graphs.dtype)[lengths.argmax(dim=1)]
        hidden = (capsules * predicted[:, :, None]).reshape(len(graphs), -1)
        for i, (weight, bias) in enumerate(self.layers):
            hidden = torch.nn.functional.linear(hidden, weight, bias)
            hidden = torch.relu(hidden) if i < len(self.layers) - 1 else torch.sigmoid(hidden)
        error = torch.nn.functional.mse_loss(hidden, graphs.reshape(len(graphs), -1), reduction="sum")
        return (margin.sum() + 0.0005 * error) / len(graphs)

    def optimizer(self, learning_rate=0.01, weight_decay=5e-4):
        return torch.optim.Adam(self.parameters(), lr=learning_rate, weight_decay=weight_decay)

    def step(self, optimizer, graphs, targets):
        """One step of the optimizer; the loss before it."""
        optimizer.zero_grad()
        loss = self.loss(graphs, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

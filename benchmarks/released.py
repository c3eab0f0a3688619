"""How far `isocapsnet-released` and the published program agree, and how far the program agrees with itself.

    python benchmarks/released.py hiv-dti

Three fits from equal weights on the training part of each fold of the dataset: ours; the program, written down from the
list of what it does, operation by operation; and the same program with the graphs of a batch in reverse order, which is
equal in exact arithmetic. Each row compares two of them: the subjects of the test fold in which both predict the same
class, the share of equal winning permutations, the largest difference between two weights, and the smallest difference
between the lengths of the two class capsules of a subject, which decides its class.

The program holds every permutation of every window in memory: 4 GB for 50 graphs of 90 nodes.
"""

import argparse
import warnings
from itertools import permutations

import numpy as np
import torch
from torch import Tensor, nn

from isocapsnet import ReleasedIsoCapsNetClassifier, load_graphs
from isocapsnet.nn import ReleasedIsoCapsNet

EPOCHS, DELTA = 17, 0.0005
HEADER = ("seed", "fold", "compared", "same class", "equal winners", "largest difference of weights", "smallest margin")


def squash(x: Tensor) -> Tensor:
    squared = (x**2).sum(dim=-1, keepdim=True)
    return squared / (1 + squared) * x / torch.sqrt(squared)


class Program(nn.Module):
    """The published program with the initial weights of our module."""

    def __init__(self, module: ReleasedIsoCapsNet) -> None:
        super().__init__()
        self.template = nn.Parameter(module.isomorphic.templates.detach()[0].clone())
        self.weight = nn.Parameter(module.weight.detach()[:, 0].clone())
        self.decoder = module.decoder.mlp
        k = len(self.template)
        self.every = torch.stack([torch.eye(k)[list(p)] for p in permutations(range(k))])

    def search(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """Winning permutations and squared distances ``(n_graphs, n_windows)``."""
        k = len(self.template)
        permuted = torch.matmul(torch.matmul(self.every, self.template), self.every.transpose(1, 2))
        windows = graphs.unfold(1, k, 1).unfold(2, k, 1).reshape(-1, 1, k, k)
        best = torch.max(-(torch.norm(windows - permuted, p="fro", dim=(2, 3)) ** 2), dim=1)
        return best.indices.view(len(graphs), -1), -best.values.view(len(graphs), -1)

    def forward(self, graphs: Tensor) -> Tensor:
        """Class capsules ``(n_graphs, 2, 16)``."""
        winners, squared = self.search(graphs)
        primary = squash(self.every[winners].flatten(2) * squared[..., None])
        primary = torch.where(primary == 0, torch.full_like(primary, -1.0), primary)
        votes = primary[None, :, :, None, :] @ self.weight[:, None]
        logits = torch.zeros_like(votes)
        for iteration in range(3):
            capsules = squash((logits.softmax(dim=2) * votes).sum(dim=2, keepdim=True))
            if iteration < 2:
                logits = logits + (votes * capsules).sum(dim=-1, keepdim=True)
        return capsules[:, :, 0, 0].transpose(0, 1)

    def loss(self, graphs: Tensor, codes: Tensor) -> Tensor:
        capsules = self(graphs)
        lengths = (capsules**2).sum(dim=-1) ** 0.5
        present = torch.eye(2)[codes]
        margin = present * torch.relu(0.9 - lengths) ** 2 + 0.5 * (1 - present) * torch.relu(lengths - 0.1) ** 2
        predicted = torch.eye(2)[lengths.argmax(dim=1)]
        decoded = self.decoder((capsules * predicted[:, :, None]).reshape(len(graphs), -1)).sigmoid()
        error = ((decoded - graphs.reshape(len(graphs), -1)) ** 2).sum()
        return (margin.sum() + DELTA * error) / len(graphs)

    def fit(self, graphs: Tensor, codes: Tensor) -> "Program":
        """All graphs are one batch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            self.loss(graphs, codes).backward()
            optimizer.step()
        return self

    @torch.no_grad()
    def predict(self, graphs: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Lengths ``(n_graphs, 2)`` and winning permutations ``(n_graphs, n_windows)``."""
        parts = [(self(graph[None]).square().sum(dim=-1).sqrt(), self.search(graph[None])[0]) for graph in graphs]
        lengths, winners = (torch.cat(part).numpy() for part in zip(*parts, strict=True))
        return lengths, winners

    def weights(self) -> np.ndarray:
        """The template and the routing weights in one row."""
        return torch.cat([self.template.flatten(), self.weight.flatten()]).detach().numpy()


def compare(graphs: np.ndarray, codes: np.ndarray, test: np.ndarray, seed: int) -> list[list[str]]:
    """One row for ours and the program, and one for the program and its reverse."""
    train = np.setdiff1d(np.arange(len(graphs)), test)
    model = ReleasedIsoCapsNetClassifier(batch_size=len(train), random_state=seed, device="cpu")
    model.fit(graphs[train], codes[train])
    lengths = np.linalg.norm(model.transform(graphs[test]).reshape(len(test), 2, -1), axis=2)
    winners = model.match(graphs[test]).permutations.reshape(len(test), -1)
    weights = np.concatenate([model.templates_.ravel(), model.module_.weight.detach().numpy().ravel()])
    fits = [(lengths, winners, weights)]
    for order in (train, train[::-1].copy()):
        torch.manual_seed(seed)
        program = Program(ReleasedIsoCapsNet(graphs.shape[1], 2))
        program.fit(torch.from_numpy(graphs[order]), torch.from_numpy(codes[order]))
        fits.append((*program.predict(torch.from_numpy(graphs[test])), program.weights()))
    rows = []
    for name, one, other in (("ours, program", *fits[:2]), ("program, graphs in reverse order", *fits[1:])):
        agree = np.sum(one[0].argmax(axis=1) == other[0].argmax(axis=1))
        margin = np.abs(other[0][:, 1] - other[0][:, 0]).min()
        difference = np.abs(one[2] - other[2]).max()
        rows.append(
            [
                name,
                f"{agree} of {len(test)}",
                f"{np.mean(one[1] == other[1]):.3f}",
                f"{difference:.2g}",
                f"{margin:.1e}",
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="path or name of a dataset with two classes and folds of its own")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--folds", help="numbers of folds, separated by commas (default: all)")
    parser.add_argument("--nodes", type=int, help="use the first nodes only, which is faster")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = load_graphs(arguments.data)
    graphs = np.ascontiguousarray(data.X[:, : arguments.nodes, : arguments.nodes], dtype=np.float32)
    folds = range(1, len(data.folds) + 1) if arguments.folds is None else map(int, arguments.folds.split(","))
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    for fold in folds:
        for seed in map(int, arguments.seeds.split(",")):
            for row in compare(graphs, data.labels, np.asarray(data.folds[fold - 1]), seed):
                print(f"| {seed} | {fold} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

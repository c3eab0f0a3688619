"""How far `isocapsnet-released` and the published program agree, and how far the program agrees with itself.

    python benchmarks/released.py hiv-dti

Three fits from equal weights on the training part of each fold of the dataset: ours; the program, written down from the
list of what it does, operation by operation; and the same program with the graphs summed in reverse order, which is
equal in exact arithmetic. Columns: seed, fold, test subjects, subjects in which ours and the program predict the same
class, the share of winning permutations that are equal, and both for the program and its reversed sum.
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


def squash(x: Tensor) -> Tensor:
    squared = (x**2).sum(dim=-1, keepdim=True)
    return squared / (1 + squared) * x / torch.sqrt(squared)


class Program(nn.Module):
    """The published program, one graph at a time, with the initial weights of our module."""

    def __init__(self, module: ReleasedIsoCapsNet) -> None:
        super().__init__()
        self.template = nn.Parameter(module.isomorphic.templates.detach()[0].clone())
        self.weight = nn.Parameter(module.weight.detach()[:, 0].clone())
        self.decoder = module.decoder.mlp
        k = len(self.template)
        self.every = torch.stack([torch.eye(k)[list(p)] for p in permutations(range(k))])

    def search(self, graph: Tensor) -> tuple[Tensor, Tensor]:
        """Winning permutations and squared distances ``(n_windows,)``."""
        k = len(self.template)
        permuted = torch.matmul(torch.matmul(self.every, self.template), self.every.transpose(1, 2))
        windows = graph.unfold(0, k, 1).unfold(1, k, 1).reshape(-1, 1, k, k)
        best = torch.max(-(torch.norm(windows - permuted, p="fro", dim=(2, 3)) ** 2), dim=1)
        return best.indices, -best.values

    def forward(self, graph: Tensor) -> Tensor:
        """Class capsules ``(2, 16)``."""
        winners, squared = self.search(graph)
        primary = squash(self.every[winners].flatten(1) * squared[:, None])
        primary = torch.where(primary == 0, torch.full_like(primary, -1.0), primary)
        votes = (primary[:, None] @ self.weight)[:, :, 0]
        logits = torch.zeros_like(votes[..., :1])
        for iteration in range(3):
            capsules = squash((logits.softmax(dim=1) * votes).sum(dim=1, keepdim=True))
            if iteration < 2:
                logits = logits + (votes * capsules).sum(dim=-1, keepdim=True)
        return capsules[:, 0]

    def loss(self, graph: Tensor, code: int) -> Tensor:
        capsules = self(graph)
        lengths = (capsules**2).sum(dim=-1) ** 0.5
        margin = torch.relu(0.9 - lengths[code]) ** 2 + 0.5 * torch.relu(lengths[1 - code] - 0.1) ** 2
        decoded = self.decoder((capsules * torch.eye(2)[lengths.argmax()][:, None]).flatten()).sigmoid()
        return margin + DELTA * ((decoded - graph.flatten()) ** 2).sum()

    def fit(self, graphs: Tensor, codes: list[int]) -> "Program":
        """All graphs are one batch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            for graph, code in zip(graphs, codes, strict=True):
                (self.loss(graph, code) / len(graphs)).backward()
            optimizer.step()
        return self

    @torch.no_grad()
    def predict(self, graphs: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Classes ``(n_graphs,)`` and winning permutations ``(n_graphs, n_windows)``."""
        classes = [int((self(graph) ** 2).sum(dim=-1).argmax()) for graph in graphs]
        return np.array(classes), np.stack([self.search(graph)[0].numpy() for graph in graphs])


def compare(graphs: np.ndarray, codes: np.ndarray, test: np.ndarray, seed: int) -> str:
    train = np.setdiff1d(np.arange(len(graphs)), test)
    model = ReleasedIsoCapsNetClassifier(batch_size=len(train), random_state=seed, device="cpu")
    model.fit(graphs[train], codes[train])
    answers = [(model.predict(graphs[test]), model.match(graphs[test]).permutations.reshape(len(test), -1))]
    for order in (train, train[::-1].copy()):
        torch.manual_seed(seed)
        program = Program(ReleasedIsoCapsNet(graphs.shape[1], 2))
        program.fit(torch.from_numpy(graphs[order]), codes[order].tolist())
        answers.append(program.predict(torch.from_numpy(graphs[test])))
    cells = [str(len(test))]
    for (classes, winners), (other_classes, other_winners) in (answers[:2], answers[1:]):
        cells += [str(np.sum(classes == other_classes)), f"{np.mean(winners == other_winners):.3f}"]
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="path or name of a dataset with two classes and folds of its own")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--nodes", type=int, help="use the first nodes only, which is faster")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    data = load_graphs(arguments.data)
    graphs = np.ascontiguousarray(data.X[:, : arguments.nodes, : arguments.nodes], dtype=np.float32)
    for seed in map(int, arguments.seeds.split(",")):
        for fold, test in enumerate(data.folds, start=1):
            print(f"| {seed} | {fold} | {compare(graphs, data.labels, np.asarray(test), seed)} |", flush=True)


if __name__ == "__main__":
    main()

"""What the networks share: the training loop (skorch, by composition), scaling, early stopping, saving."""

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from skorch import NeuralNet
from skorch.helper import predefined_split
from torch import Tensor, nn

from isocapsnet._validation import InputError, check_graphs, check_number
from isocapsnet.models._base import GraphClassifier, as_seed, class_weights
from isocapsnet.models._batches import GraphStore
from isocapsnet.models._callbacks import DivergenceGuard, KeepBest
from isocapsnet.models._distributed import build_net, join_processes, n_processes
from isocapsnet.models._interruption import interruptible
from isocapsnet.models._optimizers import AdamW
from isocapsnet.models._scaling import EdgeScaler, fit_scaler

logger = logging.getLogger("isocapsnet")

# Parameter, gradient and two moments of Adam.
_BYTES_PER_PARAMETER = 16
# The temperature of predict_proba is sought between e⁻² and e⁴.
_LOG_TEMPERATURE_RANGE = (-2.0, 4.0)


class NetworkClassifier(GraphClassifier):
    """A classifier that trains a torch module with a skorch net.

    A method lists all its parameters in ``__init__`` (``learning_rate, weight_decay, batch_size, max_epochs, patience,
    validation_fraction, class_weight, scaling, device, random_state, verbose, callbacks`` among them) and implements
    ``_build_module``; a module that returns more than logits also has ``_build_criterion`` and ``_class_scores``.

    The processes of a torch process group (``accelerate.PartialState()`` creates one) train one model together: each
    computes its share of every batch of ``batch_size`` graphs, and the result is that of one process up to rounding.

    Attributes
    ----------
    module_ : torch.nn.Module
    history_ : list of dict
        Per epoch: ``epoch``, ``train_loss``, ``dur`` and, with a validation part, ``valid_loss``.
    scaler_ : EdgeScaler
    temperature_ : float
        Class scores are multiplied by it before the softmax.
    net_ : skorch.NeuralNet
        The net that trained the module; not there in a model loaded from disk.
    """

    #: Whether ``temperature_`` is fitted on the validation part; for scores whose scale means nothing.
    _calibrated: ClassVar[bool] = False
    _optimizer: ClassVar[type[torch.optim.Optimizer]] = AdamW

    learning_rate: float
    weight_decay: float
    batch_size: int
    max_epochs: int
    patience: int | None
    validation_fraction: float
    class_weight: Any
    scaling: str
    device: str
    random_state: Any
    verbose: int
    callbacks: Any

    module_: nn.Module
    history_: list[dict[str, Any]]
    scaler_: EdgeScaler
    temperature_: float
    net_: NeuralNet

    # -- what a method implements ---------------------------------------------------------------------------

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        raise NotImplementedError

    def _build_criterion(self, weights: Tensor) -> nn.Module:
        """The loss ``criterion(output, codes)``, with one weight per class."""
        return nn.CrossEntropyLoss(weight=weights)

    def _class_scores(self, output: Any) -> Tensor:
        """Module output to class scores ``(n_graphs, n_classes)``, of which probabilities are the softmax."""
        return output

    def _own_callbacks(self) -> list[Any]:
        """Named skorch callbacks that the method brings along."""
        return []

    def _setting(self, name: str) -> Any:
        """A training parameter as it is used, where a method derives it from others."""
        return getattr(self, name)

    # -- fitting --------------------------------------------------------------------------------------------

    def _check_parameters(self, n_nodes: int) -> None:
        check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        check_number("weight_decay", self.weight_decay, low=0)
        check_number("batch_size", self.batch_size, low=1, integer=True)
        check_number("max_epochs", self.max_epochs, low=1, integer=True)
        check_number("validation_fraction", self.validation_fraction, low=0, high=0.9)
        if self.patience is not None:
            check_number("patience", self.patience, low=1, integer=True)

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        seed, device = join_processes(as_seed(self.random_state), resolve_device(self.device))
        self.scaler_ = fit_scaler(X, self._setting("scaling"))
        self._refuse_if_too_large(len(X), device)
        training, validation = self._split(codes, seed)
        if X_unlabeled is not None:
            training = np.concatenate([training, np.arange(len(X), len(X) + len(X_unlabeled))])
        graphs = self._build_store(X, codes, device, X_unlabeled)

        # Everything random below draws from a forked generator: the user's own is left as it was.
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            self.net_ = self._build_net(codes, device, graphs.subset(validation) if len(validation) else None)
            # On one thread: handing a GPU's gradients to another costs half a millisecond in every batch.
            with interruptible(), torch.autograd.set_multithreading_enabled(n_processes() > 1):
                self.net_.fit(graphs.subset(training), y=None)
        self.module_ = self.net_.module_.eval()
        self.module_.zero_grad()  # gradients are as large as the module
        self.history_ = [
            {
                key: float(row[key]) if key != "epoch" else row[key]
                for key in ("epoch", "train_loss", "valid_loss", "dur")
                if key in row
            }
            for row in self.net_.history
        ]
        self.temperature_ = 1.0
        if self._calibrated and len(validation):
            self.temperature_ = _fit_temperature(self._scores(X, validation), codes[validation])
        self._warn_if_constant(X, np.sort(training[training < len(X)])[:1000])

    def _build_store(
        self, X: NDArray[Any], codes: NDArray[np.int64], device: torch.device, X_unlabeled: NDArray[Any] | None
    ) -> GraphStore:
        """What batches are drawn from; a method may give its module more than the graphs."""
        return GraphStore(X, codes, self.scaler_, device, X_unlabeled)

    def _build_net(self, codes: NDArray[np.int64], device: torch.device, validation: GraphStore | None) -> NeuralNet:
        weights = torch.as_tensor(class_weights(self.class_weight, self.classes_, codes), dtype=torch.float32)
        callbacks: list[Any] = [("divergence", DivergenceGuard()), *self._own_callbacks()]
        if validation is not None and self.patience is not None:
            callbacks.append(("early_stopping", KeepBest(patience=self.patience, sink=logger.info)))
        return build_net(
            device,
            module=self._build_module(self.n_nodes_in_, len(self.classes_)),
            criterion=self._build_criterion(weights),
            optimizer=self._optimizer,
            optimizer__weight_decay=self._setting("weight_decay"),
            optimizer__fused=True,
            lr=self._setting("learning_rate"),
            max_epochs=self._setting("max_epochs"),
            batch_size=self._setting("batch_size"),
            iterator_train__shuffle=True,
            train_split=predefined_split(validation) if validation is not None else None,
            callbacks=callbacks + list(self.callbacks or []),
            verbose=int(self.verbose),
        )

    def _split(self, codes: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stratified training and validation indices; no validation part when a class is too small for one."""
        everyone = np.arange(len(codes))
        fraction = self._setting("validation_fraction")
        if fraction == 0:
            return everyone, everyone[:0]
        rng = np.random.default_rng(seed)
        held_out = []
        for code in range(len(self.classes_)):
            members = rng.permutation(np.flatnonzero(codes == code))
            held_out.append(members[: round(fraction * len(members))])
        if any(len(part) == 0 for part in held_out):
            warnings.warn(
                f"The smallest class has {np.bincount(codes).min()} graphs, too few for a validation part of "
                f"{fraction:g}; training runs for all {self.max_epochs} epochs.",
                stacklevel=5,
            )
            return everyone, everyone[:0]
        validation = np.sort(np.concatenate(held_out))
        return np.setdiff1d(everyone, validation), validation

    def _refuse_if_too_large(self, n_graphs: int, device: torch.device) -> None:
        with torch.device("meta"):
            module = self._build_module(self.n_nodes_in_, len(self.classes_))
        n_parameters = sum(p.numel() for p in module.parameters())
        needed, available = n_parameters * _BYTES_PER_PARAMETER, _available_bytes(device)
        logger.info(
            "%s: %s parameters, %.0f MB with gradients and optimiser state, %d graphs of %d nodes on %s",
            type(self).__name__, f"{n_parameters:,}", needed / 1e6, n_graphs, self.n_nodes_in_, device,
        )  # fmt: skip
        if available is not None and needed > available:
            raise InputError(
                f"{type(self).__name__} would have {n_parameters:,} parameters and need {needed / 1e9:.1f} GB with "
                f"gradients and optimiser state, but {device} has {available / 1e9:.1f} GB free; "
                f"{self._smaller_model_hint()}."
            )

    def _smaller_model_hint(self) -> str:
        return "choose smaller layer sizes"

    def _warn_if_constant(self, X: NDArray[Any], index: NDArray[np.int64]) -> None:
        predicted: set[int] = set()
        for output in self._forward(X, index):
            predicted.update(self._class_scores(output).argmax(dim=1).tolist())
            if len(predicted) > 1:
                return
        warnings.warn(
            f"{type(self).__name__} predicts class {self.classes_[predicted.pop()]} for every training graph: it "
            'learned nothing beyond the class sizes. Try class_weight="balanced", another learning_rate or more '
            "epochs.",
            stacklevel=5,
        )

    # -- using the fitted module ----------------------------------------------------------------------------

    def _forward(self, X: NDArray[Any], index: NDArray[np.int64] | None = None) -> Iterator[Any]:
        """Module outputs batch by batch, without gradients; of all graphs, or of those at ``index``."""
        device = next(self.module_.parameters()).device
        self.module_.eval()
        index = np.arange(len(X)) if index is None else index
        with torch.inference_mode():
            for start in range(0, len(index), self.batch_size):
                graphs = self.scaler_.transform(X[index[start : start + self.batch_size]])
                yield self.module_(torch.from_numpy(graphs).to(device))

    def _scores(self, X: NDArray[Any], index: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Class scores ``(n, n_classes)`` of all graphs, or of those at ``index``."""
        scores = [self._class_scores(output).cpu().double().numpy() for output in self._forward(X, index)]
        return np.concatenate(scores)

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return _softmax(self.temperature_ * self._scores(X))

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values = {
            "scaler": list(self.scaler_),
            "temperature": self.temperature_,
            "history": self.history_,
        }
        return values, {name: tensor.cpu().numpy() for name, tensor in self.module_.state_dict().items()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.scaler_ = EdgeScaler(*values["scaler"])
        self.temperature_, self.history_ = values["temperature"], values["history"]
        with torch.random.fork_rng(devices=[]):
            self.module_ = self._build_module(self.n_nodes_in_, len(self.classes_))
        self.module_.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        self.module_.to(resolve_device(self.device)).eval()


class SemiSupervisedNetwork(NetworkClassifier):
    """A network with a reconstruction loss, in which unlabelled graphs can take part."""

    def fit(self, X: ArrayLike, y: ArrayLike, X_unlabeled: ArrayLike | None = None) -> Self:
        """Fit to labelled graphs; graphs in ``X_unlabeled`` take part in the reconstruction loss alone.

        Parameters
        ----------
        X : array-like (n_graphs, n_nodes, n_nodes)
        y : array-like (n_graphs,)
        X_unlabeled : array-like (n_unlabeled, n_nodes, n_nodes), optional
        """
        graphs, classes, codes = self._check_training(X, y)
        unlabeled = None
        if X_unlabeled is not None:
            unlabeled = check_graphs(X_unlabeled, n_nodes=graphs.shape[1], name="X_unlabeled")
        return self._fit_checked(graphs, classes, codes, unlabeled)


def resolve_device(device: str) -> torch.device:
    """``"auto"`` is a GPU where there is one; anything else is what torch calls it."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError as error:
        raise InputError(f'device={device!r} is unknown; use "auto", "cpu" or "cuda".') from error
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f'device={device!r} was asked for, but torch sees no GPU here; use device="cpu".')
    return resolved


def _available_bytes(device: torch.device) -> int | None:
    """Free memory of the device; ``None`` where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return None
    line = next(line for line in meminfo.read_text().splitlines() if line.startswith("MemAvailable"))
    return 1024 * int(line.split()[1])


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponential = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exponential / exponential.sum(axis=1, keepdims=True)


def _fit_temperature(scores: NDArray[np.float64], codes: NDArray[np.int64]) -> float:
    """The temperature of least log-loss on held-out scores ``(n_graphs, n_classes)``."""

    def log_loss(log_temperature: float) -> float:
        probabilities = _softmax(np.exp(log_temperature) * scores)
        return -float(np.log(probabilities[np.arange(len(codes)), codes] + 1e-12).mean())

    return float(np.exp(minimize_scalar(log_loss, bounds=_LOG_TEMPERATURE_RANGE, method="bounded").x))

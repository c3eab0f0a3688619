"""What the networks share: parameters of the training, early stopping, calibration, prediction, saving."""

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from torch import Tensor, nn

from isocapsnet._state import check_arrays, check_truth
from isocapsnet._validation import InputError, check_number
from isocapsnet.models._base import GraphClassifier, as_seed, class_weights, warn_user
from isocapsnet.models._batches import GraphStore, Parts
from isocapsnet.models._calibration import LEAST_PER_CLASS, fit_temperature, halves, validation_part
from isocapsnet.models._device import bytes_of_batch, check_room, repeatable_convolutions, resolve_device
from isocapsnet.models._optimizer import Adam
from isocapsnet.models._parameters import Count, Flag, NotNegative, Positive, estimator, in_range, one_of
from isocapsnet.models._recording import free_for_recordings, recording_stream
from isocapsnet.models._scaling import SCALINGS, InputScaler, check_magnitude, fit_scaler
from isocapsnet.models._seeding import seeded
from isocapsnet.models._training import History, TrainingDivergedError, outputs, train

#: Class scores ``(n_graphs, n_classes)`` and codes ``(n_graphs,)`` of graphs that were held out of the training.
HeldOut = tuple[NDArray[np.float64], NDArray[np.int64]]


@estimator
class NetworkClassifier(GraphClassifier):
    """A classifier that trains a torch module.

    A method is a dataclass of its parameters, those below and its own, and implements ``_build_module``. A method whose
    module returns more than logits also has ``_build_criterion`` and ``_class_scores``. In the docstring of a method,
    ``{training}`` stands for the parameters below and ``{fitted}`` for the attributes.

    Parameters
    ----------
    {training_and_fitted}
    """

    version: ClassVar[int] = 2

    #: Whether the weight decay is decoupled from the gradient (AdamW) or an L2 penalty (Adam).
    _decoupled_weight_decay: ClassVar[bool] = True
    #: Whether the module never waits for the device, so that its training steps can be recorded on a GPU.
    _records_steps: ClassVar[bool] = False
    #: What the error about too little memory recommends.
    _smaller_model_hint: ClassVar[str] = "choose smaller layer sizes"

    scaling: Annotated[str, one_of(*SCALINGS)] = "auto"
    learning_rate: Positive = 1e-3
    weight_decay: NotNegative = 5e-4
    batch_size: Count = 16
    max_epochs: Count = 30
    patience: Count | None = None
    validation_fraction: Annotated[float, in_range(0, 0.9)] = 0.0
    calibrate: Flag = True
    class_weight: Any = None
    device: str = "auto"
    random_state: Any = None
    verbose: int = 0
    callbacks: Any = None

    module_: nn.Module = field(init=False)
    history_: History = field(init=False)
    scaler_: InputScaler = field(init=False)
    temperature_: float = field(init=False)

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
        """Callbacks that are part of the method."""
        return []

    def _prepare(self, module: nn.Module, graphs: GraphStore) -> None:
        """Let the module learn from the training graphs, labelled or not, before the first epoch."""

    def _add_networks(self, parts: Parts, seed: int, held_out: HeldOut | None) -> None:
        """Add what improves the scores of held-out graphs to the fitted module."""

    # -- fitting --------------------------------------------------------------------------------------------

    def _check_parameters(self, n_nodes: int) -> None:
        super()._check_parameters(n_nodes)
        for callback in self.callbacks or []:
            if not callable(getattr(callback, "on_epoch_end", callback)):
                raise InputError(f"callbacks: {callback!r:.60} is neither a function nor has it on_epoch_end(history).")

    def _without_effect(self) -> dict[str, str]:
        return {} if self.validation_fraction else {"patience": "validation_fraction=0, so no graphs are held out"}

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        seed, device = as_seed(self.random_state), resolve_device(self.device)
        self.scaler_ = fit_scaler(X, self.scaling)
        check_magnitude(X, self.scaler_)
        if X_unlabeled is not None:
            check_magnitude(X_unlabeled, self.scaler_, name="X_unlabeled")
        with torch.device("meta"):  # a plan without memory (1 ms), so that a module too large is never allocated
            plan = self._build_module(self.n_nodes_in_, len(self.classes_))
        self._check_room(device, plan)
        graphs = self._build_store(X, codes, device, X_unlabeled)
        training, validation = self._split(codes, seed)
        held_out = None if len(validation) else self._cross_fit(graphs, codes, seed)
        parts = Parts(graphs, codes, training, validation)
        self.module_, self.history_ = self._train(parts, seed)
        if len(validation) and self.calibrate:
            held_out = self._module_scores(self.module_, graphs.subset(validation)), codes[validation]
        weights = class_weights(self.class_weight, self.classes_, codes)
        self.is_calibrated_ = held_out is not None
        self.temperature_ = 1.0 if held_out is None else fit_temperature(*held_out, weights)
        self._add_networks(parts, seed, held_out)
        self._warn_if_constant(graphs.subset(training[:1000]))

    def _train(self, parts: Parts, seed: int) -> tuple[nn.Module, History]:
        """A module trained on the training part and on all unlabelled graphs, and its history."""
        graphs, codes, training, validation = parts
        used = graphs.subset(np.concatenate([training, np.arange(len(codes), len(graphs))]))
        weights = class_weights(self.class_weight, self.classes_, codes)
        criterion = self._build_criterion(torch.as_tensor(weights, dtype=torch.float32)).to(graphs.device)
        with (
            seeded(seed, graphs.device),
            # On one thread: handing the gradients of a GPU to another thread takes half a millisecond per batch.
            torch.autograd.set_multithreading_enabled(False),
            repeatable_convolutions(),
            recording_stream(graphs.device),
        ):
            module = self._build_module(self.n_nodes_in_, len(self.classes_)).to(graphs.device)
            batch = bytes_of_batch(module, criterion, used, min(self.batch_size, len(used)))
            # Other stores have batches of more than a tensor, or methods that wait for the device.
            record = self._records_steps and type(used) is GraphStore and graphs.device.type == "cuda"
            if record:  # recordings have memory of their own, which those of earlier fits may have left
                batch += max(0, batch - free_for_recordings(graphs.device))
            self._check_room(graphs.device, module, batch)
            self._prepare(module, used)
            history = train(
                module,
                criterion,
                self._build_optimizer(module),
                used,
                graphs.subset(validation) if len(validation) else None,
                batch_size=self.batch_size,
                max_epochs=self.max_epochs,
                patience=self.patience,
                callbacks=[*self._own_callbacks(), *(self.callbacks or [])],
                verbose=bool(self.verbose),
                record=record,
            )
        module.zero_grad()  # gradients are as large as the module
        return module.eval(), history

    def _build_optimizer(self, module: nn.Module) -> Adam:
        return Adam(module.parameters(), self.learning_rate, self.weight_decay, decoupled=self._decoupled_weight_decay)

    def _cross_fit(self, graphs: GraphStore, codes: NDArray[np.int64], seed: int) -> HeldOut | None:
        """Scores and codes of the labelled graphs: :meth:`_cross_scores`, unless they cannot be computed.

        None without ``calibrate``, if a class is too small, and if the training diverges.
        """
        if not self.calibrate:
            return None
        if np.bincount(codes).min() < LEAST_PER_CLASS:
            warn_user(
                f"The probabilities are not calibrated: the smallest class has {np.bincount(codes).min()} graphs, and "
                f"calibration needs {LEAST_PER_CLASS}.",
            )
            return None
        try:
            return self._cross_scores(graphs, codes, seed), codes
        except TrainingDivergedError as error:
            warn_user(f"The probabilities are not calibrated: a fit to half of the graphs failed. {error}")
            return None

    def _cross_scores(self, graphs: GraphStore, codes: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        """Class scores of the labelled graphs, each scored by a network trained on the other half of them."""
        seeds = np.random.SeedSequence(abs(seed)).generate_state(3).tolist()
        parts = []
        for (training, held_out), own_seed in zip(halves(codes, seeds[2]), seeds, strict=False):
            module, _ = self._as_part()._train(Parts(graphs, codes, training, held_out[:0]), own_seed)
            parts.append((held_out, self._module_scores(module, graphs.subset(held_out))))
            del module  # makes room for the next
        held_out, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
        return np.asarray(scores[np.argsort(held_out)])

    def _as_part(self) -> Self:
        """A copy of this estimator that trains on a part of the data: silent, with copies of callbacks with a state."""
        part = copy(self)
        part.verbose = 0
        try:
            part.callbacks = deepcopy(self.callbacks)
        except Exception as error:
            raise InputError(f"callbacks cannot be copied to calibrate ({error}); set calibrate=False.") from error
        return part

    def _build_store(
        self, X: NDArray[Any], codes: NDArray[np.int64], device: torch.device, X_unlabeled: NDArray[Any] | None
    ) -> GraphStore:
        """The source of the batches. A method may give its module more than the graphs."""
        return GraphStore(X, codes, self.scaler_, device, X_unlabeled)

    def _split(self, codes: NDArray[np.int64], seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Stratified training and validation indices; without a validation part if a class is too small."""
        indices, fraction = np.arange(len(codes)), self.validation_fraction
        validation = validation_part(codes, fraction, seed) if fraction > 0 else indices[:0]
        if fraction > 0 and len(validation) == 0:
            warn_user(
                f"There is no validation part: the smallest class has {np.bincount(codes).min()} graphs, too few for "
                f"validation_fraction={fraction:g}. Training runs for all {self.max_epochs} epochs.",
            )
        return np.setdiff1d(indices, validation), validation

    def _check_room(self, device: torch.device, module: nn.Module, batch: int = 0) -> None:
        hint = self._smaller_model_hint + (", or a smaller batch_size" if batch else "")
        hint += ", or fewer jobs that share the GPU" if device.type == "cuda" else ""
        check_room(type(self).__name__, device, module, hint=hint, beside=self._bytes_beside(module), batch=batch)

    def _bytes_beside(self, module: nn.Module) -> int:
        """Bytes that a fit needs at its peak in addition to parameters, gradients and moments of the module."""
        return 0

    def _warn_if_constant(self, graphs: GraphStore) -> None:
        predicted: set[int] = set()
        for output, _ in outputs(self.module_, graphs, self.batch_size):
            predicted.update(self._class_scores(output).argmax(dim=1).tolist())
            if len(predicted) > 1:
                return
        warn_user(
            f"{type(self).__name__} predicts class {self.classes_[predicted.pop()]} for every training graph. Try "
            'class_weight="balanced", another learning_rate or more epochs.',
        )

    def _check_fitted(self, X: ArrayLike) -> NDArray[Any]:
        graphs = super()._check_fitted(X)
        check_magnitude(graphs, self.scaler_)
        return graphs

    def _batches(self, X: NDArray[Any], index: NDArray[np.int64] | None = None) -> Iterator[Tensor]:
        """The scaled graphs, all or those at ``index``, batch by batch on the device of the module."""
        device = next(self.module_.parameters()).device
        index = np.arange(len(X)) if index is None else index
        for start in range(0, len(index), self.batch_size):
            yield torch.from_numpy(self.scaler_.transform(X[index[start : start + self.batch_size]])).to(device)

    def _forward(self, X: NDArray[Any]) -> Iterator[Any]:
        """Outputs of the module, batch by batch and without gradients."""
        self.module_.eval()
        with torch.inference_mode():
            for graphs in self._batches(X):
                with repeatable_convolutions():
                    output = self.module_(graphs)
                yield output

    def _scores(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Class scores ``(n, n_classes)`` of the graphs."""
        return np.concatenate([self._class_scores(output).cpu().double().numpy() for output in self._forward(X)])

    def _module_scores(self, module: nn.Module, graphs: GraphStore) -> NDArray[np.float64]:
        """Class scores ``(n, n_classes)`` that a module gives the graphs of a store, whose index is ascending."""
        batches = outputs(module, graphs, self.batch_size)
        return np.concatenate([self._class_scores(output).cpu().double().numpy() for output, _ in batches])

    def _predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(softmax(self.temperature_ * self._scores(X), axis=1))

    def _build_stored(self, values: dict[str, Any]) -> nn.Module:
        """The module of a model file with these values, on the meta device; its weights are loaded afterwards."""
        return self._build_module(self.n_nodes_in_, len(self.classes_))

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values = {"scaler": list(self.scaler_), "temperature": self.temperature_, "history": self.history_}
        return values, {name: tensor.cpu().numpy() for name, tensor in self.module_.state_dict().items()}

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        logarithm, scale = values["scaler"]
        for name, value in (("scale", scale), ("temperature", values["temperature"])):
            check_number(name, value, low=0, open_low=True, high=float(np.finfo(np.float32).max))
        self.scaler_ = InputScaler(check_truth("logarithm", logarithm), scale)
        self.temperature_, self.history_ = values["temperature"], [dict(epoch) for epoch in values["history"]]
        with torch.device("meta"):  # shapes only: a file may declare a module that is too large to build
            self.module_ = self._build_stored(values)
        plan = self.module_.state_dict()
        kinds = {name: torch.empty(0, dtype=tensor.dtype).numpy().dtype for name, tensor in plan.items()}
        check_arrays(arrays, {name: (kinds[name], tuple(tensor.shape)) for name, tensor in plan.items()})
        # No weights are drawn to be replaced, so a file is read while another thread trains. The copies of torch are
        # aligned in memory as the weights of a training are, on which the last digits of a product depend.
        weights = {name: torch.from_numpy(array).clone() for name, array in arrays.items()}
        self.module_.load_state_dict(weights, assign=True)
        self.module_.to(resolve_device(self.device)).eval()

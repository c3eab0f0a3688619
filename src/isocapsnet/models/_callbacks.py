"""What watches over a fit: a loss that is no longer a number, the best epoch, a goal that is reached."""

from contextlib import suppress
from io import BytesIO
from tempfile import TemporaryFile
from typing import Any

import torch
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping

# Beyond this, the weights of the best epoch wait on disk.
_WEIGHTS_IN_MEMORY = 64 * 1024**2


class TrainingDivergedError(RuntimeError):
    """The loss became infinite or undefined."""


class DivergenceGuard(Callback):
    """Stops a fit whose loss is no longer a number."""

    def on_batch_end(self, net: NeuralNet, training: bool = False, loss: Any = None, **_: Any) -> None:
        if training and loss is not None and not torch.isfinite(loss):
            raise TrainingDivergedError(
                f"Training diverged in epoch {len(net.history)}: the loss became {loss.item()}; lower learning_rate "
                f"(now {net.lr:g}) or scale the graphs."
            )


class KeepBest(EarlyStopping):
    """Early stopping that goes back to the epoch of the least validation loss, whatever ended the fit.

    The weights of that epoch wait in a file when they are large.
    """

    def __init__(self, patience: int, sink: Any) -> None:
        super().__init__(patience=patience, threshold=0, sink=sink)

    def on_train_begin(self, net: NeuralNet, **_: Any) -> None:
        super().on_train_begin(net)
        self.n_seen = 0
        size = sum(tensor.nbytes for tensor in net.module_.state_dict().values())
        self.best_weights = TemporaryFile() if size > _WEIGHTS_IN_MEMORY else BytesIO()  # noqa: SIM115

    def on_epoch_end(self, net: NeuralNet, **_: Any) -> None:
        self.n_seen = net.history[-1, "epoch"]
        try:
            super().on_epoch_end(net)
        finally:
            if self.best_epoch_ == self.n_seen:
                self.best_weights.seek(0)
                for tensor in net.module_.state_dict().values():
                    self.best_weights.write(tensor.cpu().numpy())

    def on_train_end(self, net: NeuralNet, **_: Any) -> None:
        last = net.history[-1]
        if self.monitor in last and last["epoch"] > self.n_seen:  # another callback ended the fit at this epoch
            with suppress(KeyboardInterrupt):
                self.on_epoch_end(net)
        with self.__dict__.pop("best_weights") as weights:
            if not 0 < self.best_epoch_ < last["epoch"]:
                return
            weights.seek(0)
            for tensor in net.module_.state_dict().values():
                on_cpu = tensor.cpu()  # on a CPU the tensor itself: nothing is held twice
                weights.readinto(on_cpu.numpy())
                tensor.copy_(on_cpu)
        self._sink(f"Restoring the model of epoch {self.best_epoch_}.", verbose=net.verbose)

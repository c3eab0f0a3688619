"""A motif form beside the network of the paper, or instead of it."""

from dataclasses import field
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isocapsnet._threads import one_thread
from isocapsnet._validation import InputError, check_number
from isocapsnet.models._base import class_weights, warn_user
from isocapsnet.models._batches import Parts
from isocapsnet.models._calibration import LEAST_PER_CLASS, choose_second
from isocapsnet.models._motif_form import MotifForm
from isocapsnet.models._network import HeldOut
from isocapsnet.models._parameters import Count, Positive, estimator, in_range, one_of
from isocapsnet.models._templates import Matches, TemplateClassifier
from isocapsnet.models._training import History, TrainingDivergedError
from isocapsnet.nn import CapsuleOutput, IsoCapsNet
from isocapsnet.nn.motifs import DEVIATIONS, MOTIF_WINDOWS, MotifNetwork, MotifOutput

PAPER = "contiguous"
WINDOWS = ("auto", PAPER, *MOTIF_WINDOWS)
# All permutations of a motif are tried at once.
MAX_MOTIF_SIZE = 6
# Carriers of motifs are described from at most this many graphs.
_DESCRIBED_GRAPHS = 1024


class MotifPlaces(NamedTuple):
    """Where each motif matches best.

    Attributes
    ----------
    distances : array (n_graphs, n_motifs)
        Between the motif and its best window, in units of the root mean square of the initial motifs.
    nodes : array (n_graphs, n_motifs, motif_size), int64
        The nodes of that window, in the order of the rows of the motif.
    """

    distances: NDArray[np.float32]
    nodes: NDArray[np.int64]


@estimator
class TwoForms(TemplateClassifier):
    """Combines a capsule network, which a method builds in ``_build_aligned``, with a motif form."""

    windows: Annotated[str, one_of(*WINDOWS)] = "auto"
    n_motifs: Count = 32
    motif_size: Annotated[int, in_range(2, MAX_MOTIF_SIZE, integer=True)] = 4
    deviation_from: Annotated[str, one_of(*DEVIATIONS)] = "mean_graph"
    template_learning_rate: Positive | None = None

    forms_: tuple[str, ...] = field(init=False)
    form_weights_: tuple[float, float] = field(init=False)

    def _build_aligned(self, n_nodes: int, n_classes: int) -> IsoCapsNet:
        raise NotImplementedError

    def _size_parameter(self) -> str:
        return "motif_size" if self.windows in MOTIF_WINDOWS else super()._size_parameter()

    # -- what the fitted networks give ----------------------------------------------------------------------

    @property
    def templates_(self) -> NDArray[np.float32]:
        """Learned templates ``(n_templates, k, k)``, in scaled units."""
        return super().templates_ if PAPER in self.forms_ else self.motifs_

    @one_thread()
    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Class capsules of each graph, and the scores of the motifs: ``(n_graphs, n_features)``.

        There are ``n_classes * capsule_size`` entries of capsules, if there is the network of the paper, and then
        ``n_motifs`` scores, if there is a motif form (see ``forms_``).
        """
        features = []
        for output in self._forward(self._check_fitted(X)):
            motifs = output if isinstance(output, MotifOutput) else output.motifs
            parts = [] if isinstance(output, MotifOutput) else [output.capsules.flatten(1)]
            features.append(torch.cat([*parts, *([] if motifs is None else [motifs.scores])], dim=1).cpu().numpy())
        return np.concatenate(features)

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]
        n_motifs = len(self.motif_network_.templates) if self._motif_windows is not None else 0
        if isinstance(self.module_, MotifNetwork):
            return n_motifs
        return self.module_.n_classes * self.module_.capsule_size + n_motifs  # type: ignore[operator, return-value]

    def reconstruct(self, X: ArrayLike) -> NDArray[np.float32]:
        """Each graph as decoded from its capsules, in original units: ``(n_graphs, n_nodes, n_nodes)``."""
        self._check_aligned("a decoder")
        return super().reconstruct(X)

    def match(self, X: ArrayLike) -> Matches:
        """The score and the winning permutation of every template in every window."""
        self._check_aligned("the network of the paper")
        return super().match(X)

    def _check_aligned(self, what: str) -> None:
        if PAPER not in getattr(self, "forms_", (PAPER,)):
            raise InputError(f'A model with windows="{self._motif_windows}" does not have {what}; see match_motifs.')

    @one_thread()
    def match_motifs(self, X: ArrayLike) -> MotifPlaces:
        """The best match of every motif in every graph."""
        graphs, network = self._check_fitted(X), self.motif_network_
        with torch.inference_mode():
            parts = [[part.cpu().numpy() for part in network.locate(batch)] for batch in self._batches(graphs)]
        return MotifPlaces(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    @property
    def motifs_(self) -> NDArray[np.float32]:
        """Learned templates of the motif form ``(n_motifs, motif_size, motif_size)``, in scaled units."""
        motifs = self.motif_network_
        return (motifs.templates * motifs.scale).detach().cpu().numpy()

    @property
    def motif_network_(self) -> MotifNetwork:
        """The motif form."""
        motifs = self.module_ if PAPER not in self.forms_ else getattr(self.module_, "motifs", None)
        if not isinstance(motifs, MotifNetwork):
            raise AttributeError(
                'This model has no motif form: windows="contiguous" leaves it out, and windows="auto" adds one only if '
                'it improves the scores of held-out graphs. Fit with windows="neighborhood" or "diagonal" to have one.'
            )
        return motifs

    @property
    def _motif_windows(self) -> str | None:
        """The windows of the fitted motif form."""
        return next((form for form in self.forms_ if form != PAPER), None)

    def _class_scores(self, output: CapsuleOutput | MotifOutput) -> Tensor:
        if isinstance(output, MotifOutput):
            return output.logits
        lengths = super()._class_scores(output)
        if output.motifs is None or self.form_weights_[1] == 0:
            return lengths
        first, second = self.form_weights_
        return first * lengths + second * output.motifs.logits

    # -- fitting --------------------------------------------------------------------------------------------

    def _learns_unlabeled(self) -> bool:
        return self.windows not in MOTIF_WINDOWS and super()._learns_unlabeled()

    def _fit(self, X: NDArray[Any], codes: NDArray[np.int64], X_unlabeled: NDArray[Any] | None = None) -> None:
        alone = self.windows in MOTIF_WINDOWS
        self.forms_, self.form_weights_ = ((self.windows,), (0.0, 1.0)) if alone else ((PAPER,), (1.0, 0.0))
        super()._fit(X, codes, X_unlabeled)
        if self._motif_windows is not None:
            self._describe_carriers(X, codes)

    def _build_module(self, n_nodes: int, n_classes: int) -> nn.Module:
        motifs = None
        if self._motif_windows is not None:
            motifs = self._motif_form(self._motif_windows)._build_module(n_nodes, n_classes)
        if PAPER not in self.forms_ and motifs is not None:
            return motifs
        module = self._build_aligned(n_nodes, n_classes)
        module.motifs = motifs
        return module

    def _motif_form(self, windows: str) -> MotifForm:
        """The estimator of a motif form, with the parameters of this one."""
        shared = ("deviation_from", "batch_size", "patience", "class_weight", "verbose", "callbacks")
        form = MotifForm(windows=windows, n_templates=self.n_motifs, kernel_size=self.motif_size)
        form.set_params(**{name: getattr(self, name) for name in shared})
        form.max_epochs = max(1, self.max_epochs // 2)
        form.template_learning_rate = self.template_learning_rate or form.template_learning_rate
        form.classes_, form.n_nodes_in_ = self.classes_, self.n_nodes_in_
        return form

    def _train(self, parts: Parts, seed: int) -> tuple[nn.Module, History]:
        return (
            super()._train(parts, seed)
            if PAPER in self.forms_
            else self._motif_form(self.forms_[0])._train(parts, seed)
        )

    def _add_networks(self, parts: Parts, seed: int, held_out: HeldOut | None) -> None:
        """Add the motif form that improves the scores of held-out graphs most, if one does."""
        if self.windows != "auto" or not self.calibrate:
            return
        if held_out is None or self.n_nodes_in_ < self.motif_size:
            reason = f"motif_size={self.motif_size} is larger than the graphs"
            if held_out is None:
                reason = f"there are no scores of held-out graphs, which need {LEAST_PER_CLASS} graphs of each class"
            warn_user(f'windows="auto" is windows="contiguous" here: {reason}, so the motif form is left out.')
            return
        codes, validation = parts.codes, parts.validation
        labelled = parts.graphs.plain().subset(np.arange(len(codes)))
        parts = parts._replace(graphs=labelled)
        forms = {windows: self._motif_form(windows) for windows in MOTIF_WINDOWS}
        modules: dict[str, nn.Module] = {}
        scores: dict[str, NDArray[np.float64]] = {}
        for windows, form in forms.items():
            form.callbacks, form.verbose = None, 0
            try:
                if len(validation):
                    modules[windows], _ = form._train(parts, seed)
                    scores[windows] = form._module_scores(modules[windows], labelled.subset(validation))
                else:
                    scores[windows] = form._cross_scores(labelled, codes, seed)
            except TrainingDivergedError as error:
                _warn_left_out(windows, error)
        weights = class_weights(self.class_weight, self.classes_, codes)
        combination = choose_second(held_out[0], scores, held_out[1], weights)
        if combination is None:
            return
        windows = combination.chosen
        try:
            if windows not in modules:
                modules[windows], _ = forms[windows]._train(parts, seed)
        except TrainingDivergedError as error:
            _warn_left_out(windows, error)
            return
        first, second = combination.weights
        motifs = modules[windows]
        assert isinstance(motifs, MotifNetwork)
        with torch.no_grad():
            motifs.head.bias.add_(torch.as_tensor(combination.intercepts / second).to(motifs.head.bias))
        self.module_.motifs = motifs
        self.forms_, self.temperature_ = (PAPER, windows), first + second
        self.form_weights_ = (first / self.temperature_, second / self.temperature_)

    @torch.no_grad()
    def _describe_carriers(self, X: NDArray[Any], codes: NDArray[np.int64]) -> None:
        """Let the motif form describe which training graphs carry its templates; predictions do not use it."""
        network = self.motif_network_
        some = np.linspace(0, len(X) - 1, min(len(X), _DESCRIBED_GRAPHS)).astype(np.int64)
        windows = torch.cat([network.take(batch)[0] for batch in self._batches(X, some)])
        network.describe(windows, torch.from_numpy(codes[some]).to(windows.device))

    # -- model files ----------------------------------------------------------------------------------------

    def _get_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        values, arrays = super()._get_state()
        return values | {"forms": list(self.forms_), "form_weights": list(self.form_weights_)}, arrays

    def _set_state(self, values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        first, second = values.get("form_weights", (1.0, 0.0))
        for weight in (first, second):
            check_number("form_weights", weight, low=0, high=1)
        if "forms" not in values:
            values, arrays = _complete_earlier(self.windows, values, arrays)
        forms = tuple(values["forms"])
        expected: dict[tuple[str, ...], tuple[float, float]] = {(PAPER,): (1, 0)}
        for windows in MOTIF_WINDOWS:
            expected |= {(windows,): (0, 1), (PAPER, windows): (first, second)}
        if (first, second) != expected.get(forms) or abs(first + second - 1) > 1e-9:
            raise InputError(f"its form_weights {first!r:.20} and {second!r:.20} do not fit its forms {forms!r:.60}")
        self.forms_, self.form_weights_ = forms, (first, second)
        super()._set_state(values, arrays)


def _complete_earlier(
    windows: str, values: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state of a file of version 3 or before, as this version writes it.

    There was one motif form, which may have the weight 0. Carriers had thresholds of another distance; half of the way
    from the pattern to no pattern is where their likelihoods are equal.
    """
    alone, beside = windows == "neighborhood", "motifs.templates" in arrays
    forms = ["neighborhood"] if alone else [PAPER, "neighborhood"] if beside else [PAPER]
    if alone or beside:
        prefix = "" if alone else "motifs."
        added = {"others": np.zeros_like(arrays[f"{prefix}patterns"])}
        added["thresholds"] = np.full_like(arrays[f"{prefix}thresholds"], 0.5)
        arrays = arrays | {prefix + name: array for name, array in added.items()}
    return values | {"forms": forms}, arrays


def _warn_left_out(windows: str, error: TrainingDivergedError) -> None:
    warn_user(f'The motif form with windows="{windows}" is left out: {error}')

"""Parameters of the estimators: dataclass fields, each with its check, and documentation that several share."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial, wraps
from inspect import getfullargspec
from textwrap import indent, wrap
from types import NoneType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args

import numpy as np

from isocapsnet._validation import InputError, check_number, check_option

T = TypeVar("T")

#: Larger numbers of layers are refused as typing errors.
MAX_LAYERS = 100


def check_sizes(name: str, sizes: Any, *, may_be_empty: bool = False) -> None:
    """Raise InputError for anything but a sequence or 1-D array of positive whole numbers."""
    is_list = isinstance(sizes, Sequence) and not isinstance(sizes, str | bytes)
    if not is_list and not (isinstance(sizes, np.ndarray) and sizes.ndim == 1):
        raise InputError(f"{name}={sizes!r} is not a list of layer sizes; use whole numbers, for example (64, 32).")
    if not len(sizes) and not may_be_empty:
        raise InputError(f"{name} is empty; use whole numbers, for example (64, 32).")
    if len(sizes) > MAX_LAYERS:
        raise InputError(f"{name} has {len(sizes)} layers; use at most {MAX_LAYERS}.")
    for size in sizes:
        check_number(name, size, low=1, integer=True)


def in_range(low: float, high: float = np.inf, *, integer: bool = False, open_low: bool = False) -> partial[None]:
    """A check of numbers, for the annotation of a parameter."""
    return partial(check_number, low=low, high=high, integer=integer, open_low=open_low)


def one_of(*options: Any) -> partial[None]:
    """A check of options, for the annotation of a parameter."""
    return partial(check_option, allowed=options)


# Types of parameters with their checks, which GraphClassifier._check_parameters calls with name and value.
Count = Annotated[int, in_range(1, integer=True)]
Layers = Annotated[int, in_range(1, MAX_LAYERS, integer=True)]
Positive = Annotated[float, in_range(0, open_low=True)]
NotNegative = Annotated[float, in_range(0)]
Share = Annotated[float, in_range(0, 1)]
PositiveShare = Annotated[float, in_range(0, 1, open_low=True)]
Flag = Annotated[bool, one_of(True, False)]
Sizes = Annotated[Sequence[int], check_sizes]
SizesOrEmpty = Annotated[Sequence[int], partial(check_sizes, may_be_empty=True)]


def check_fields(estimator: Any) -> None:
    """Check every dataclass field by its annotation. None is valid where the annotation has ``| None``."""
    for parameter in fields(estimator):
        options = get_args(parameter.type)
        for kind in (parameter.type, *options):
            for check in getattr(kind, "__metadata__", ()):
                value = getattr(estimator, parameter.name)
                if value is not None or NoneType not in options:
                    check(parameter.name, value)


def with_parameters(function: Callable[..., T], estimator: Any, *arguments: Any, **others: Any) -> T:
    """Call ``function(*arguments, **others)``; its other keyword-only arguments are parameters of the estimator."""
    names = set(getfullargspec(function).kwonlyargs) - set(others)
    return function(*arguments, **others, **{name: getattr(estimator, name) for name in names})


TRAINING = """\
scaling : {"auto", "std", "log", "none"}
    How edges are scaled. ``"std"`` divides them by their standard deviation over the training graphs, ``"log"``
    does so after a signed logarithm, and ``"auto"`` uses ``"log"`` for counts and ``"std"`` otherwise.
learning_rate, weight_decay : float
    Of AdamW.
batch_size : int
    Graphs per training step.
max_epochs : int
    Passes over the training graphs.
patience : int, optional
    With a validation part, stop after this many epochs without a lower validation loss and keep the weights of the
    best epoch.
validation_fraction : float
    Share of the training graphs of each class that is held out for early stopping. With 0 there is no validation
    part and no early stopping.
calibrate : bool
    Fit the scale of the probabilities to training graphs that were held out. Without a validation part this takes
    two more fits, each to half of the graphs. The predicted classes stay the same.
class_weight : None, "balanced" or dict
    Weight of each class in the loss."""

RUNNING = """\
device : str
    ``"auto"`` (a GPU if there is one), ``"cpu"`` or ``"cuda"``.
random_state : int, generator or None
    Seed of the initial weights and of the order of the graphs. The same seed gives the same result.
verbose : int
    With 1, print the losses of every epoch.
callbacks : list, optional
    Functions ``callback(history)``, or objects with such a method named ``on_epoch_end``, that are called after
    every epoch. ``history`` is the list ``history_`` so far. A callback that returns True stops the training."""

FITTED = """\
classes_ : array (n_classes,)
module_ : torch.nn.Module
    The trained network.
history_ : list of dict
    Per epoch: ``epoch``, ``train_loss``, ``valid_loss`` (with a validation part) and ``dur``, its duration in
    seconds.
scaler_ : InputScaler
    The scaling of the edges.
temperature_ : float
    Class scores are multiplied by it before the softmax. It is fitted to scores of graphs that were held out: those
    of the validation part, or each half of the training graphs scored by a network trained on the other half. It is
    1 without ``calibrate``, and if a class has fewer than four graphs."""

NEIGHBOURHOODS = """\
Each graph keeps its strongest edges; the neighbours of a node are the nodes that its row has such an edge to.
Negative edges are dropped by default, and self-edges always. The node features contain every edge with its weight
and sign.

Parameters
----------
node_features : {"profile", "degree", "identity"}
    Initial features of a node: its row of the graph (with a fixed value at its own position), its degree, or a
    one-hot code of the region. With ``"degree"`` the method is invariant to the order of the nodes.
density : float
    Share of the possible edges that each graph keeps.
negative_edges : {"drop", "absolute"}
    Whether negative edges are never kept, or are ranked and weighted by absolute value.
edge_weights : {"binary", "weighted"}
    Kept edges have the weight 1, or their own weight divided by the mean of the graph."""

CONVOLUTIONS = """\
channels : sequence of int
    Feature maps of each convolution.
hidden_sizes : sequence of int
    Widths of the fully connected layers; ``transform`` returns the last one.
dropout : float
    Dropout before each fully connected layer."""

BLOCKS = {
    "training": f"{TRAINING}\n{RUNNING}",
    "training_and_fitted": f"{TRAINING}\n{RUNNING}\n\nAttributes\n----------\n{FITTED}",
    "running": RUNNING,
    "fitted": FITTED,
    "neighbourhoods": NEIGHBOURHOODS,
    "convolutions": CONVOLUTIONS,
}


def describe_presets(presets: Mapping[str, Mapping[str, Any]]) -> str:
    """The text that a line ``{preset}`` of a docstring stands for."""
    lines = [f"preset : {{None, {', '.join(map(_quote, presets))}}}", "    Values of parameters that are not given:"]
    for name, parameters in presets.items():
        values = ", ".join(f"{key}={_quote(value)}" for key, value in parameters.items())
        lines += wrap(f"{_quote(name)}: {values}.", 90, initial_indent="    ", subsequent_indent="    ")
    return "\n".join([*lines, "    The page docs/methods.md says where they come from."])


def _quote(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make a class an estimator whose parameters are its dataclass fields, inherited ones included.

    ``__init__`` stores its keyword arguments unchanged, as scikit-learn requires. If the class has ``PRESETS`` and
    ``preset`` names one, parameters that are not given have its values. A line ``{name}`` of the docstring is replaced
    by the block of ``BLOCKS`` with that name, so that ``help()`` and Sphinx show the whole text.
    """
    presets = getattr(cls, "PRESETS", {})
    blocks = BLOCKS | {"preset": describe_presets(presets)}
    cls.__doc__ = re.sub(
        r"^( *)\{(\w+)\}$",
        lambda line: indent(blocks[line[2]], line[1]),
        cls.__doc__ or "",
        flags=re.MULTILINE,
    )
    made = dataclass(kw_only=True, eq=False, repr=False)(cls)
    if presets:
        made.__init__ = _with_presets(made.__init__)  # type: ignore[method-assign]
    return made


def _with_presets(initialise: Callable[..., None]) -> Callable[..., None]:
    """An ``__init__`` in which a preset gives the parameters that are not given; its signature stays as it is."""

    @wraps(initialise)
    def initialise_with_preset(self: Any, **given: Any) -> None:
        preset = given.get("preset")
        values = self.PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        initialise(self, **{**values, **given})

    return initialise_with_preset

"""Parameters of the networks: dataclass fields, and documentation that several estimators share, written once."""

import re
from dataclasses import dataclass
from textwrap import indent
from typing import TypeVar, dataclass_transform

T = TypeVar("T")

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
node_features : {"profile", "degree", "identity"}
    Initial features of a node: its row of the graph (with a fixed value at its own position), its degree, or a
    one-hot code of the region. With ``"degree"`` the method is invariant to the order of the nodes.
density : float
    Share of the possible edges that each graph keeps.
negative_edges : {"drop", "absolute"}
    Whether negative edges are never kept, or are ranked and weighted by absolute value.
edge_weights : {"binary", "weighted"}
    Kept edges have the weight 1, or their own weight divided by the mean of the graph."""

STRONGEST_EDGES = """\
Each graph keeps its strongest edges; the neighbours of a node are the nodes that its row has such an edge to.
Negative edges are dropped by default, and self-edges always. The node features contain every edge with its weight
and sign."""

BLOCKS = {
    "strongest_edges": STRONGEST_EDGES,
    "training": f"{TRAINING}\n{RUNNING}",
    "running": RUNNING,
    "fitted": FITTED,
    "neighbourhoods": NEIGHBOURHOODS,
}


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: type[T]) -> type[T]:
    """Make a class an estimator whose parameters are its dataclass fields, inherited ones included.

    ``__init__`` stores its keyword arguments unchanged, as scikit-learn requires. A line ``{name}`` of the docstring
    is replaced by the block of ``BLOCKS`` with that name, so that ``help()`` and Sphinx show the whole text.
    """
    cls.__doc__ = re.sub(
        r"^( *)\{(\w+)\}$",
        lambda line: indent(BLOCKS[line[2]], line[1]),
        cls.__doc__ or "",
        flags=re.MULTILINE,
    )
    return dataclass(kw_only=True, eq=False, repr=False)(cls)

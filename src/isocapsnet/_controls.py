"""``confound-only``, the control of a benchmark: when it is added, and which covariates it gets."""

from collections.abc import Sequence

from isocapsnet._methods import make_method
from isocapsnet._safe_text import list_some
from isocapsnet.datasets.fields import is_usual_confound
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.evaluation.plan import MethodSpec, Plan
from isocapsnet.evaluation.preparation import COVARIATES, Step
from isocapsnet.evaluation.protocol import Protocol

CONTROL, BASELINES = "confound-only", ("constant", "linear")


def covariates_step(
    data: BrainGraphs, protocol: Protocol, *, named: Sequence[str] = (), group: str | None = None
) -> Step | None:
    """The step that codes the covariates of ``confound-only``; None if there are none.

    They are the columns that the user named, the age, sex and motion that the data have, and the sites, unless folds
    are sites. The column that groups graphs is excluded, and so is any column that equals the target.
    """
    from isocapsnet.datasets.covariates import CovariateEncoder

    columns = [] if data.covariates is None else [str(column) for column in data.covariates.columns]
    chosen = tuple(
        c for c in columns if c != group and (c in named or is_usual_confound(c)) and not _is_target(data, c)
    )
    use_sites = data.sites is not None and len(set(data.sites.tolist())) > 1 and not protocol.scheme.keeps_sites
    if not chosen and not use_sites:
        return None
    factory = f"{CovariateEncoder.__module__}:{CovariateEncoder.__qualname__}"
    return Step(COVARIATES, factory, {"use_sites": use_sites}, chosen)


def _is_target(data: BrainGraphs, column: str) -> bool:
    """Whether a column has one value for each class, as the target has."""
    assert data.covariates is not None
    values = data.covariates[column].astype(str)
    pairs = {(value, label) for value, label in zip(values, data.labels.tolist(), strict=True) if label >= 0}
    return len(pairs) == len({value for value, _ in pairs}) == len({label for _, label in pairs})


def add_control(methods: tuple[MethodSpec, ...], covariates: Step | None) -> tuple[MethodSpec, ...]:
    """Add ``confound-only`` if the methods include a baseline and there are covariates other than sites."""
    labels = {method.label for method in methods}
    if covariates is None or not covariates.columns or CONTROL in labels or not labels & set(BASELINES):
        return methods
    return (*methods, make_method(CONTROL, {}))


def describe_control(plan: Plan) -> str | None:
    """Which covariates ``confound-only`` gets, or why there is no such row; None if there are no baselines."""
    if any(method.name == CONTROL for method in plan.methods):
        return f"{CONTROL} is a linear model of the covariates ({list_some(plan.covariate_names, 6)}), without graphs."
    is_known = plan.covariates is not None and plan.covariates.columns
    if is_known or not any(method.name in BASELINES for method in plan.methods):
        return None
    return (
        f"There is no row {CONTROL}, because no age, sex or motion was read and no covariates were named. Name "
        "columns as covariates to see how well they predict the classes without graphs."
    )

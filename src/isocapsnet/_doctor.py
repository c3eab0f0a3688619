"""The state of an installation: versions, devices, kernels, extras, folders, and a short test that it works.

Packages are imported inside the checks, so that one that is missing or broken is reported by its name.
"""

import os
import platform
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal

from isocapsnet import __version__

#: What an extra is for.
EXTRAS = {
    "methods": "graph neural networks, Riemannian methods",
    "data": "downloads, atlases, NIfTI, GraphML and MATLAB 7.3 files",
    "plots": "figures and reports",
    "cluster": "benchmarks on a Dask cluster",
    "harmonize": "ComBat",
    "attribution": "integrated gradients",
}
# Packages whose modules have another name.
_MODULES = {"scikit-learn": "sklearn", "dask[distributed]": "distributed", "nilearn[plotting]": "nilearn"}
_LITTLE_MEMORY, _LITTLE_DISK = 2e9, 1e9

Status = Literal["ok", "absent", "slow", "broken"]


@dataclass(frozen=True)
class Finding:
    """One line of a diagnosis: what was checked, how it is, the details, and what to do about it."""

    section: str
    name: str
    status: Status
    details: str
    advice: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`doctor` found. Text of it is a list for the terminal; it is true if nothing is broken."""

    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        return all(finding.status != "broken" for finding in self.findings)

    def __str__(self) -> str:
        width = max((len(finding.name) for finding in self.findings), default=0)
        lines: list[str] = []
        section = ""
        for finding in self.findings:
            if finding.section != section:
                section = finding.section
                lines += ["", section] if lines else [section]
            lines.append(f"  {finding.status:<6}  {finding.name:<{width}}  {finding.details}".rstrip())
            lines += [f"  {'':<6}  {'':<{width}}  -> {finding.advice}"] if finding.advice else []
        n_broken = sum(finding.status == "broken" for finding in self.findings)
        verdict = f"{n_broken} broken." if n_broken else "Nothing is broken."
        return "\n".join([*lines, "", verdict])

    __repr__ = __str__

    def to_json(self) -> dict[str, Any]:
        """Plain values: whether all is well, and the findings."""
        return {"healthy": bool(self), "findings": [asdict(finding) for finding in self.findings]}


def doctor(*, self_test: bool = True) -> Diagnosis:
    """Check the installation, and say what to do about each problem.

    Parameters
    ----------
    self_test : bool
        Also fit and save a small model, and compare fused kernels with plain torch. This takes about ten seconds.

    Returns
    -------
    diagnosis : Diagnosis
        Printed as a list. ``bool(diagnosis)`` is whether nothing is broken.

    Examples
    --------
    >>> import isocapsnet
    >>> isocapsnet.doctor()
    """
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("versions", _check_versions),
        ("extras", _check_extras),
        ("devices", _check_devices),
        ("kernels", _check_kernels),
        ("folders", _check_folders),
    ]
    if self_test:
        from isocapsnet._self_test import compare_kernels, try_model  # which imports this module

        checks += [("self test", check) for check in (compare_kernels, try_model)]
    return Diagnosis(tuple(finding for section, check in checks for finding in _guarded(section, check)))


def _guarded(section: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; one that raises is itself a finding."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from check()
    except Exception as error:
        name = check.__name__.lstrip("_").replace("_", " ")
        yield Finding(section, name, "broken", _describe(error), "reinstall isocapsnet and the package that is named")


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


# -- packages --------------------------------------------------------------------------------------------------------


def _requirements() -> dict[str, list[tuple[str, str]]]:
    """Packages with their lowest versions, by the extra that needs them; "" for those that are always needed."""
    needed: dict[str, list[tuple[str, str]]] = {}
    for line in metadata.requires("isocapsnet") or ():
        requirement, _, marker = line.partition(";")
        package, _, lowest = requirement.strip().partition(">=")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", marker)
        needed.setdefault(extra[1] if extra else "", []).append((package.strip(), lowest.strip()))
    return needed


def _check_package(package: str, lowest: str) -> tuple[Status, str]:
    """Whether a package is installed, new enough and can be imported."""
    name = package.partition("[")[0]
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent", f"{name} is not installed"
    if lowest and _numbers(version) < _numbers(lowest):
        return "broken", f"{name} {version} is older than {lowest}"
    try:
        import_module(_MODULES.get(package, name.replace("-", "_")))
    except Exception as error:  # the code of others can fail in any way
        return "broken", f"{name} {version} cannot be imported ({_describe(error)})"
    return "ok", f"{name} {version}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def _check_versions() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    yield Finding("versions", "isocapsnet", "ok", f"{__version__}, Python {platform.python_version()}, {system}")
    for package, lowest in _requirements().get("", ()):
        status, details = _check_package(package, lowest)
        broken = status != "ok"
        advice = f'pip install -U "{package}>={lowest}"' if broken else ""
        yield Finding("versions", package, "broken" if broken else "ok", details.removeprefix(f"{package} "), advice)


def _check_extras() -> Iterator[Finding]:
    needed = _requirements()
    for extra, purpose in EXTRAS.items():
        states = [_check_package(package, lowest) for package, lowest in needed.get(extra, ())]
        status: Status = next((s for s in ("broken", "absent") if s in [state for state, _ in states]), "ok")
        shown = [details for state, details in states if state == status] if status != "ok" else [d for _, d in states]
        advice = "" if status == "ok" else f'for {purpose}: pip install -U "isocapsnet[{extra}]"'
        yield Finding("extras", extra, status, ", ".join(shown), advice)


# -- the machine -----------------------------------------------------------------------------------------------------


def _check_devices() -> Iterator[Finding]:
    import psutil
    import torch

    from isocapsnet.models._device import available_bytes

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    too_many = threads > usable
    advice = f"several threads would share a core: set OMP_NUM_THREADS={usable}" if too_many else ""
    details = f"{usable} of {os.cpu_count()} cores can be used, {threads} thread{'s' * (threads != 1)} in torch"
    yield Finding("devices", "cpu", "slow" if too_many else "ok", details, advice)
    free, total = available_bytes(torch.device("cpu")), psutil.virtual_memory().total
    is_little = free < _LITTLE_MEMORY
    advice = "close other programs, or run fewer jobs at a time (jobs=1)" if is_little else ""
    details = f"{free / 1e9:.1f} GB free of {total / 1e9:.1f} GB"
    yield Finding("devices", "memory", "slow" if is_little else "ok", details, advice)
    if not torch.cuda.is_available():
        reason = "torch was built without CUDA" if torch.version.cuda is None else "torch finds no GPU or driver"
        yield Finding("devices", "gpu", "absent", f"{reason}; everything works on the CPU")
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(index)
        details = f"{torch.cuda.get_device_name(index)}, {free / 1e9:.1f} GB free of {total / 1e9:.1f} GB"
        yield Finding("devices", f"cuda:{index}", "ok", details)


def list_devices() -> list[str]:
    """The kinds of devices that torch can use."""
    import torch

    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _check_kernels() -> Iterator[Finding]:
    """Which kernels match and route. They are used once, because some fail only then."""
    import torch

    from isocapsnet.functional import isomorphic_match
    from isocapsnet.functional.kernels import eager, pick_kernel, pick_routing

    for device in list_devices():
        graphs, templates = torch.ones(1, 5, 5, device=device), torch.ones(1, 3, 3, device=device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            isomorphic_match(graphs, templates)
        compiler = "numba" if device == "cpu" else "triton"
        if pick_kernel(graphs, templates) is not eager and pick_routing(torch.ones(2, 1, 1, 9, 16, device=device)):
            yield Finding("kernels", device, "ok", f"fused ({compiler})")
            continue
        reason = str(caught[0].message) if caught else f"{compiler} cannot be imported"
        advice = f"results are the same, but slower: install {compiler}, and set NUMBA_CACHE_DIR to a writable folder"
        yield Finding("kernels", device, "slow", f"plain torch: {reason}", advice)


def _check_folders() -> Iterator[Finding]:
    from isocapsnet.datasets.archive import cache_folder

    folder = cache_folder()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(nearest).free
    details = f"{folder}, {len(files)} files, {size / 1e6:.1f} MB; {free / 1e9:.1f} GB free on the disk"
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        advice = "downloads need a folder that can be written to: set ISOCAPSNET_CACHE"
        yield Finding("folders", "cache", "broken", f"{folder} cannot be written to", advice)
    elif free < _LITTLE_DISK:
        yield Finding("folders", "cache", "slow", details, "free some disk, or set ISOCAPSNET_CACHE to another disk")
    else:
        yield Finding("folders", "cache", "ok", details)
    if data := os.environ.get("ISOCAPSNET_DATA"):
        is_there = Path(data).is_dir()
        advice = "" if is_there else "ISOCAPSNET_DATA names a folder that is not there: correct it"
        yield Finding("folders", "data", "ok" if is_there else "broken", data, advice)

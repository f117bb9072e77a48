"""How the projection's inner loops are compiled and spread over the cores.

Compiled code is kept on disk: beside the package where that folder can be written, else in the
user's cache folder (or `NUMBA_CACHE_DIR`). Where nothing can be written, each process compiles for
itself. Kernels release the interpreter lock and hold no state, so that any number of threads may
call them; rows are shared out among plain threads that end with the call, so that forking between
two calls is safe, which a standing pool of threads would not be.
"""

import os
import sys
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numba
import numpy as np
from numba.core.options import DefaultOptions
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

Function = TypeVar("Function", bound=Callable[..., object])

# An option for those who write numba's own parts, so it may go away; without it kernels are only slower.
_WITHOUT_OWNERSHIP = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_SOURCES = tuple(
    (path.name, path.stat().st_mtime, path.stat().st_size)
    for path in sorted(Path(__file__).parent.glob("*.py"))
)
_SERIAL = 300_000
"""Nanoseconds of work that are not worth another thread."""
_LAUNCH = 45_000
"""Nanoseconds that it takes to start one."""
_KEPT_BYTES, _KEPT_SPACES = 1 << 22, 16
"""How large a scratch space may be, and how many there may be, to be kept."""


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing.

    Inlined, and without the bookkeeping of who owns which array: both cost more than small rows do.
    """
    return _compiled(function, forceinline=True, **_WITHOUT_OWNERSHIP)


def allocating_kernel(function: Function) -> Function:
    """Compile a function that may allocate, to be called once for many rows.

    Compilers know that arrays which they see allocated do not overlap.
    """
    return _compiled(function)


def _compiled(function: Function, **options: Any) -> Function:
    options |= {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        compiled = numba.njit(**options)(function)
    # Numba compiles anew when a function's own file has changed, but kernels contain those of other files.
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _SOURCES
    result: Function = compiled
    return result


@kernel
def copy(source: Floats, target: Floats) -> None:
    """Do what target[:] = source does, which allocates."""
    for j in range(len(source)):
        target[j] = source[j]


@kernel
def fill(target: Floats, number: float) -> None:
    """Do what target[:] = number does, which is slow."""
    for j in range(len(target)):
        target[j] = number


def over_rows(solve: Callable[..., bool], shape: tuple[int, int], row_time: int, *arrays: Any) -> bool:
    """Call solve(*arrays, first, last, terms) so that every row of (n, K) is in exactly one call.

    `row_time` is about what a row takes, in nanoseconds.
    `terms` is scratch space for pivots, of shape (2, pivots, nodes), nodes padded to whole vectors. Returns
    whether all calls returned True: all rows are certified.
    """
    n_rows, n_classes = shape
    threads = min(_threads(), n_rows * row_time // _SERIAL)
    if threads <= 1:
        with _Terms(0, n_classes) as terms:
            return solve(*arrays, 0, n_rows, terms)
    # This thread starts at once and takes more.
    mine = min(n_rows, (n_rows + (threads - 1) * (_LAUNCH // row_time)) // threads)
    edges = [mine + (n_rows - mine) * i // (threads - 1) for i in range(threads)]
    results: list[bool | BaseException] = []

    def part(i: int, first: int, last: int, finished: LockType) -> None:
        try:
            with _Terms(i, n_classes) as terms:
                results.append(solve(*arrays, first, last, terms))
        except BaseException as error:
            results.append(error)
        finally:
            finished.release()

    # Threads of `threading` would first be waited for until they run.
    locks = []
    for i, (first, last) in enumerate(pairwise(edges), start=1):
        locks.append(allocate_lock())
        locks[-1].acquire()
        start_new_thread(part, (i, first, last, locks[-1]))
    try:
        with _Terms(0, n_classes) as terms:
            results.append(solve(*arrays, 0, mine, terms))
    finally:
        for lock in locks:
            lock.acquire()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return all(results)


class _Terms:
    """Memory for one part of the rows. It is kept for the next call, as fresh memory is slow to touch.

    What is in use is nobody else's: it is taken out of the store and put back at the end.
    """

    store: ClassVar[dict[tuple[int, int], Floats]] = {}

    def __init__(self, part: int, n_classes: int) -> None:
        self.key = part, n_classes

    def __enter__(self) -> Floats:
        kept = self.store.pop(self.key, None)
        nodes = (self.key[1] // 8 + 1) * 8
        # More pivots than this were never seen; a row that wants more is left to the linear program.
        self.terms = np.empty((2, nodes + 50, nodes)) if kept is None else kept
        return self.terms

    def __exit__(self, *_: object) -> None:
        if self.terms.nbytes <= _KEPT_BYTES and len(self.store) < _KEPT_SPACES:
            self.store[self.key] = self.terms


def _threads() -> int:
    """As many threads as PyTorch may use where it is loaded, else one for each core of this process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1

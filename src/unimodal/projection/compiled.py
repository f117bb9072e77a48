"""How the projection's inner loops are compiled and spread over the cores.

Compiled code is kept on disk: beside the package where that folder can be written, else in the
user's cache folder (or `NUMBA_CACHE_DIR`). Where nothing can be written, each process compiles for
itself. Kernels release the interpreter lock and hold no state, so that any number of threads may
call them; rows are shared out among plain threads that end with the call, so that forking between
two calls is safe, which a standing pool of threads would not be.
"""

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from threading import Thread
from typing import Any, TypeAlias, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

Function = TypeVar("Function", bound=Callable[..., object])

_SERIAL_WORK = 400_000
"""Below so many elementary steps (a fraction of a millisecond) threads cost more than they save."""


def kernel(function: Function) -> Function:
    """Compile `function`."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        compiled = numba.njit(**options)(function)
    result: Function = compiled
    return result


def over_rows(solve: Callable[..., None], n_rows: int, work_per_row: int, *arrays: Any) -> None:
    """Call solve(*arrays, first, last) so that every row is in exactly one call."""
    threads = min(_threads(), n_rows * work_per_row // _SERIAL_WORK)
    if threads <= 1:
        solve(*arrays, 0, n_rows)
        return
    edges = [n_rows * i // threads for i in range(threads + 1)]
    mine, *spans = pairwise(edges)
    errors: list[BaseException] = []

    def part(first: int, last: int) -> None:
        try:
            solve(*arrays, first, last)
        except BaseException as error:
            errors.append(error)

    others = [Thread(target=part, args=span) for span in spans]
    for thread in others:
        thread.start()
    part(*mine)
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]


def _threads() -> int:
    """As many threads as PyTorch may use where it is loaded, else one for each core of this process."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1

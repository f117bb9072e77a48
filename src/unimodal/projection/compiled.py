"""How inner loops, the projection's above all, are compiled and spread over the cores.

Compiled code is kept on disk: beside the package where that folder can be written, else in the
user's cache folder (or `NUMBA_CACHE_DIR`). Where nothing can be written, each process compiles for
itself. Kernels release the interpreter lock and hold no state, so that any number of threads may
call them. Rows are shared out among helper threads, which wait for the next call: to start one takes as
long as hundreds of rows. A forked process starts its own.
"""

import os
import sys
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numba
import numpy as np
from numba.core.ccallback import CFunc
from numba.core.options import DefaultOptions
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

Function = TypeVar("Function", bound=Callable[..., object])

# An option for those who write numba's own parts, so it may go away; without it kernels are only slower.
_WITHOUT_OWNERSHIP = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
_SOURCES = frozenset(Path(__file__).parent.glob("*.py"))
_SERIAL = 100_000
"""Nanoseconds of work that are not worth another thread."""
_SHARE = 50_000
"""Nanoseconds of work that are worth a call of their own."""
_IDLE_HELPERS = 16
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
    compiled: Any = numba.njit(**_OPTIONS, **options)(function)
    _keep_on_disk(compiled, function)
    result: Function = compiled
    return result


def as_callback(function: Callable[..., None], signature: Any) -> int:
    """Compile a function for others than Python to call, now; return its address."""
    compiled: Any = CFunc(
        function, (signature.args, signature.return_type), locals={}, options=dict(_OPTIONS)
    )
    _keep_on_disk(compiled, function)
    compiled.compile()
    address: int = compiled.address
    return address


def _keep_on_disk(compiled: Any, function: Callable[..., object]) -> None:
    try:
        compiled.enable_caching()
    except RuntimeError:  # no folder can be written
        return
    # Numba compiles anew when a function's own file has changed, but kernels contain those of this folder.
    cache_file = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if cache_file is not None and hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _stamp(_SOURCES | {Path(function.__code__.co_filename)})


@cache
def _stamp(paths: frozenset[Path]) -> tuple[tuple[str, float, int], ...]:
    """What changes when one of the files does."""
    return tuple((path.name, path.stat().st_mtime, path.stat().st_size) for path in sorted(paths))


def _vectors(n: int) -> Floats:
    """Allocate n zeros that begin where a vector of the processor may: others take twice as long to read."""
    space = np.zeros(n + 7)
    start = -space.ctypes.data % 64 // 8
    return space[start : start + n]


vectors = _compiled(_vectors, forceinline=True)


@kernel
def copy(source: Floats, target: Floats) -> None:
    """Do what target[:] = source does, which allocates."""
    for j in range(len(source)):
        target[j] = source[j]


@kernel
def fill(target: Floats, number: float) -> None:
    """Do what target[:] = number does."""
    for j in range(len(target)):
        target[j] = number


@kernel
def exp(x: float) -> float:
    """The exponential to the last digit or two, without calls or branches; 0 from 1e-307 downwards.

    exp(x) = 2^k exp(r), where k is the nearest whole number to x / ln 2 and exp(r) its Taylor series.
    """
    is_small = x < -707.0
    bounded = -707.0 if is_small else x
    shifted = bounded * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52: whole numbers are its last bits
    k = shifted - 6755399441055744.0
    r = (bounded - k * 0.693145751953125) - k * 1.4286068203094172e-06
    series = 1.0 + r / 13.0
    for i in range(12, 0, -1):
        series = 1.0 + series * r * (1.0 / i)
    exponent = np.float64(shifted).view(np.int64) + 1023
    power = np.int64(exponent << 52).view(np.float64)
    result: float = 0.0 if is_small else series * power
    return np.inf if x > 709.0 else result


def over_rows(solve: Callable[..., bool], shape: tuple[int, int], row_time: int, *arrays: Any) -> bool:
    """Call solve(*arrays, first, last, terms) so that every row of (n, K) is in exactly one call.

    `row_time` is about what a row takes, in nanoseconds. `terms` is scratch space for pivots, of shape
    (2, pivots, nodes), nodes padded to whole vectors. Returns whether all calls returned True, for which all
    rows must be certified.
    """
    n_rows, n_classes = shape
    threads = threads_worth(n_rows * row_time)
    if threads == 1:
        with Terms(0, n_classes) as terms:
            return solve(*arrays, 0, n_rows, terms)
    spans = _spans(n_rows, max(1, _SHARE // row_time), threads)
    results: list[bool | BaseException] = []

    def part(i: int) -> None:
        try:
            with Terms(i, n_classes) as terms:
                while spans:
                    results.append(solve(*arrays, *spans.popleft(), terms))
        except IndexError:  # another thread took the last span
            pass
        except BaseException as error:
            results.append(error)

    helpers = [_Helper.at_work(partial(part, i)) for i in range(1, threads)]
    part(0)
    for helper in helpers:
        helper.dismiss()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return all(results)


def threads_worth(nanoseconds: int) -> int:
    """How many threads so much work is worth."""
    return max(1, min(_threads(), nanoseconds // _SERIAL))


def _spans(n_rows: int, fewest: int, threads: int) -> deque[tuple[int, int]]:
    """Share out rows in spans that get shorter, so that nobody waits long for a thread that lags behind.

    Threads do: PyTorch's own keep their cores busy for a while after they have nothing to do.
    """
    spans: deque[tuple[int, int]] = deque()
    first = 0
    while first < n_rows:
        last = min(n_rows, first + max(fewest, (n_rows - first) // (2 * threads)))
        spans.append((first, last))
        first = last
    return spans


class _Helper:
    """A thread that does one job after another."""

    idle: ClassVar[list["_Helper"]] = []

    def __init__(self) -> None:
        self.job: Callable[[], None] | None = None
        self.begun, self.done = allocate_lock(), allocate_lock()
        self.begun.acquire()
        self.done.acquire()
        start_new_thread(self._run, ())

    @classmethod
    def at_work(cls, job: Callable[[], None]) -> "_Helper":
        """Give the job to a helper who has none."""
        try:
            helper = cls.idle.pop()
        except IndexError:
            helper = cls()
        helper.job = job
        helper.begun.release()
        return helper

    def dismiss(self) -> None:
        """Wait until the job is done; then wait for another, or end if many do already."""
        self.done.acquire()
        self.job = None
        if len(self.idle) < _IDLE_HELPERS:
            self.idle.append(self)
        else:
            self.begun.release()

    def _run(self) -> None:
        while True:
            self.begun.acquire()
            if self.job is None:
                return
            self.job()
            self.done.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Helper.idle.clear)  # threads are not inherited


class Terms:
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
        self.terms = (
            _vectors(2 * (nodes + 50) * nodes).reshape(2, nodes + 50, nodes) if kept is None else kept
        )
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

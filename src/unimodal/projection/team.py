"""PyTorch's own threads, for a kernel between two of its operations.

After an operation in parallel the threads of PyTorch's OpenMP team stay awake, waiting busily for the next
one: whoever else wants their cores gets them late. Where PyTorch runs on GNU's OpenMP library, the very same
team can run a kernel: each of its threads calls it with the same argument, an array of pointers. Where it
does not, and in a forked process, which has no team, there are the helper threads of `compiled`.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import llvmlite.binding
import torch
from numba import types
from numpy.typing import NDArray

from unimodal.projection.compiled import as_callback

thread_number: Any = types.ExternalFunction("omp_get_thread_num", types.int32())
thread_count: Any = types.ExternalFunction("omp_get_num_threads", types.int32())

_POINTERS: Any = types.CPointer(types.CPointer(types.float64))  # type: ignore[no-untyped-call]
_is_forked = False


def run_in_team(callback: Callable[[Any], None], arrays: Sequence[NDArray[Any]], threads: int) -> bool:
    """Let the team call a function of pointers to these arrays; False if there is no team to do it."""
    library = None if _is_forked else _library()
    if library is None:
        return False
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    library.GOMP_parallel(_address(callback), pointers, threads, 0)
    return True


@cache
def _library() -> ctypes.CDLL | None:
    """GNU's OpenMP library, if it is the one that PyTorch has loaded."""
    home = Path(torch.__file__).parent
    bundled = chain((home / "lib").glob("libgomp*"), home.with_name("torch.libs").glob("libgomp*"))
    for name in (*map(str, bundled), "libgomp.so.1"):
        try:
            library = ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0))
        except OSError:
            continue
        library.GOMP_parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        library.GOMP_parallel.restype = None
        for function in (thread_number, thread_count):
            address = ctypes.cast(getattr(library, function.symbol), ctypes.c_void_p).value
            llvmlite.binding.add_symbol(function.symbol, address)
        return library
    return None


@cache
def _address(callback: Callable[[Any], None]) -> int:
    return as_callback(callback, types.void(_POINTERS))


def _after_fork() -> None:
    global _is_forked
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

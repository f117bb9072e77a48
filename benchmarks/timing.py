"""Interleaved timing: candidates take turns, and the best time of each counts."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path


def best_seconds(
    candidates: Mapping[str, Callable[[], object]], rounds: int, turn: float = 0.0
) -> dict[str, float]:
    """The fastest run of each candidate; a busy machine slows all of them alike.

    In each round every candidate runs once, in the caches that the others left behind; or again and again
    for the seconds of a `turn`, where what is measured comes in loops: one step of training after another.
    """
    best = dict.fromkeys(candidates, float("inf"))
    for candidate in candidates.values():
        candidate()
    for _ in range(rounds):
        for name, candidate in candidates.items():
            end = time.perf_counter() + turn
            start = -1.0
            while start < end:
                start = time.perf_counter()
                candidate()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def machine() -> str:
    """The processor, in one line."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return f"{os.cpu_count()} x {model}, Python {platform.python_version()}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

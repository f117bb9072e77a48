"""Interleaved timing: every candidate runs once per round, and the best of its rounds counts."""

import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def best_seconds(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The fastest round of each candidate; a busy machine slows all of them alike."""
    best = dict.fromkeys(candidates, float("inf"))
    for candidate in candidates.values():
        candidate()
    for _ in range(rounds):
        for name, candidate in candidates.items():
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

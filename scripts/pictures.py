"""Draw the pictures of the README and the documentation: docs/images."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

import unimodal as um

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORNERS = np.array([[0.0, 0.0], [0.5, np.sqrt(0.75)], [1.0, 0.0]])  # the ordered classes, left to right
MODES = ("#4477aa", "#228833", "#cc6677")
RED, GREY = "#bb3333", "#666666"
HEIGHT = 3.4


def triangle(ax: "Axes") -> None:
    """The simplex of three classes, with the part of each mode."""
    ax.set_aspect("equal")
    ax.axis("off")
    ax.fill(*CORNERS.T, facecolor="#f4f4f4", edgecolor=GREY, linewidth=1)
    for mode, colour in enumerate(MODES):
        part = um.simplex.extreme_points(3, mode) @ CORNERS
        around = np.argsort(np.arctan2(*(part - part.mean(axis=0)).T))
        ax.fill(*part[around].T, facecolor=colour, alpha=0.3, edgecolor=colour, linewidth=1)
    for corner, place, side in zip(range(3), CORNERS, ("right", "center", "left"), strict=True):
        ax.text(place[0], place[1], f" class {corner} ", ha=side, va="bottom" if corner == 1 else "center")


def arrows(ax: "Axes", q: NDArray[np.float64]) -> None:
    """From each point to the nearest one inside."""
    for start, end in zip(q @ CORNERS, um.project(q) @ CORNERS, strict=True):
        ax.annotate(
            "",
            end,
            start,
            arrowprops={"arrowstyle": "->", "color": "black", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0},
        )
        ax.plot(*start, "o", color=RED, markersize=4)


def bars(ax: "Axes", q: NDArray[np.float64]) -> None:
    """A distribution with two peaks, and the nearest one with one peak."""
    p, mode = um.project(q, return_mode=True)
    classes = np.arange(len(q))
    ax.bar(classes - 0.2, q, width=0.4, color=RED, label="two peaks")
    ax.bar(classes + 0.2, p, width=0.4, color=MODES[1], label=f"nearest with one, at {mode}")
    ax.set_xlabel(f"class; {um.distance(q):.2f} of mass x classes moved")
    ax.set_ylabel("probability")
    ax.set_ylim(top=1.35 * q.max())  # room for the legend
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def cumulative(ax: "Axes", q: NDArray[np.float64], mode: int) -> None:
    """The same as curves: the nearest one is convex before the mode, concave after it."""
    p = um.project(q, mode)
    nodes = np.arange(len(q) + 1)
    before, after = (np.r_[0, np.cumsum(values)] for values in (q, p))
    ax.fill_between(nodes, before, after, color="#dddddd", label=f"distance {um.distance(q, mode):.2f}")
    ax.plot(nodes, before, "o-", color=RED, label="Q, given", markersize=3)
    ax.plot(nodes, after, "o-", color=MODES[1], label="P, nearest", markersize=3)
    ax.axvspan(mode, mode + 1, color=MODES[1], alpha=0.12)
    ax.text(mode + 0.5, 0.02, "mode", ha="center", color=MODES[1])
    ax.set_xlabel("cumulative over classes")
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def draw_projection(path: Path) -> None:
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, HEIGHT), width_ratios=(1, 1.2), layout="constrained"
    )
    triangle(left)
    arrows(left, np.array([[0.48, 0.04, 0.48], [0.62, 0.06, 0.32], [0.25, 0.05, 0.7], [0.4, 0.2, 0.4]]))
    bars(right, np.array([0.05, 0.3, 0.12, 0.03, 0.1, 0.28, 0.12]))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_simplex(path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, HEIGHT), layout="constrained")
    for ax in (left, right):
        triangle(ax)
    left.plot(*(np.full(3, 1 / 3) @ CORNERS), "o", color="black", markersize=4)
    stops = um.simplex.path([0.72, 0.2, 0.08], [0.1, 0.3, 0.6], np.linspace(0, 1, 5)) @ CORNERS
    right.plot(*stops.T, "-", color="black", linewidth=1.4)
    right.plot(*stops[[0, -1]].T, "o", color="black", markersize=5)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_cumulative(path: Path) -> None:
    q = np.array([0.05, 0.3, 0.12, 0.03, 0.1, 0.28, 0.12])
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, HEIGHT), layout="constrained")
    for ax, mode in ((left, 1), (right, 5)):
        cumulative(ax, q, mode)
    figure.savefig(path, dpi=110)
    plt.close(figure)


PICTURES = {"projection": draw_projection, "simplex": draw_simplex, "cumulative": draw_cumulative}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    folder = parser.parse_args().to
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw(folder / f"{name}.png")


if __name__ == "__main__":
    main()

"""Models on disk: a folder with what they are (JSON) and their numbers (safetensors). Loading runs nothing.

`model.json` names the format's version, says everything but the arrays, and holds the SHA-256 of both
parts. A folder appears whole or not at all: it is written beside its place and moved there.
"""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from unimodal import __version__
from unimodal.estimators.classifier import OrdinalClassifier
from unimodal.estimators.search import OrdinalClassifierCV
from unimodal.estimators.state import from_state, to_state

FORMAT = 1
_DESCRIPTION, _ARRAYS = "model.json", "model.safetensors"

Model = OrdinalClassifier | OrdinalClassifierCV


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a fitted model into a folder.

    Parameters
    ----------
    model : OrdinalClassifier or OrdinalClassifierCV
        The model; fitted.
    path : path
        The folder. A model that is there already is replaced, anything else is left alone.
    """
    from sklearn.utils.validation import check_is_fitted

    if not isinstance(model, Model):
        raise ValueError(
            f"model must be an OrdinalClassifier or OrdinalClassifierCV, got {type(model).__name__}"
        )
    check_is_fitted(model)
    folder = check_destination(path)
    state, arrays = to_state(model)
    numbers = save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    description = {
        "format": FORMAT,
        "unimodal": __version__,
        "model": state,
        "model_sha256": _hash(_text(state).encode()),
        "arrays_sha256": _hash(numbers),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        whole = Path(beside) / "new"
        whole.mkdir()
        (whole / _ARRAYS).write_bytes(numbers)
        (whole / _DESCRIPTION).write_text(
            json.dumps(description, indent=1, allow_nan=False), encoding="utf-8"
        )
        if folder.exists():
            folder.rename(Path(beside) / "old")
        whole.rename(folder)


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Refuse a path at which there is something that is no model; known before the training, not after."""
    folder = Path(path)
    if folder.exists() and not _is_model(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is no model: choose another path, or remove it first")
    return folder


def load(path: str | os.PathLike[str]) -> Model:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : path
        Its folder.

    Raises
    ------
    ValueError
        If the folder holds no model, one of a newer format, or a damaged one.
    """
    folder = Path(path)
    if not _is_model(folder):
        raise ValueError(f"{folder} is no folder with a model: it has no {_DESCRIPTION}")
    try:
        description: dict[str, Any] = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        version = description["format"]
        if isinstance(version, int) and version > FORMAT:
            raise ValueError(
                f"{folder} was saved in format {version} by unimodal {description.get('unimodal')}; "
                f"this version reads up to {FORMAT}: upgrade unimodal"
            )
        numbers = (folder / _ARRAYS).read_bytes()
        state = description["model"]
        hashes = description["model_sha256"], description["arrays_sha256"]
        if hashes != (_hash(_text(state).encode()), _hash(numbers)):
            raise _DamagedError("its contents are not those that were saved")
        return from_state(state, load_arrays(numbers))
    except (OSError, KeyError, TypeError, json.JSONDecodeError, SafetensorError, _DamagedError) as error:
        raise ValueError(f"the model in {folder} is damaged: {error}") from None


class _DamagedError(Exception):
    pass


def _is_model(folder: Path) -> bool:
    return (folder / _DESCRIPTION).is_file()


def _text(state: dict[str, Any]) -> str:
    """The same text for equal states."""
    return json.dumps(state, sort_keys=True, allow_nan=False)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

"""Models on disk: a folder with what they are (JSON) and their numbers (safetensors). Loading runs nothing.

`model.json` names the format's version, says everything but the arrays, and holds the SHA-256 of them and of
itself. A folder appears whole or not at all: it is written beside its place and moved there.
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
        "arrays_sha256": _hash(numbers),
    }
    description["sha256"] = _hash(_text(description).encode())
    text = json.dumps(description, indent=1, allow_nan=False)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        whole, old = Path(beside) / "new", Path(beside) / "old"
        whole.mkdir()
        (whole / _ARRAYS).write_bytes(numbers)
        (whole / _DESCRIPTION).write_text(text, encoding="utf-8")
        is_there = folder.exists()
        if is_there:
            folder.rename(old)
        try:
            whole.rename(folder)
        except BaseException:
            if is_there:
                old.rename(folder)
            raise


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Refuse a path at which there is something that is no model; known before the training, not after."""
    folder = Path(path)
    if folder.exists() and not _is_nothing_but_a_model(folder):
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
        return _read(folder)
    except _NewerFormatError as error:
        raise ValueError(f"{folder} {error}") from None
    except (
        OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError, SafetensorError,
    ) as error:  # fmt: skip
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f"the model in {folder} is damaged: {what}") from None


def _read(folder: Path) -> Model:
    description = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
    if not isinstance(description, dict):
        raise ValueError(f"{_DESCRIPTION} must hold an object, got {type(description).__name__}")
    version = description["format"]
    if type(version) is not int or version < 1:
        raise ValueError(f"format must be a whole number of at least 1, got {version!r}")
    if version > FORMAT:
        raise _NewerFormatError(
            f"was saved in format {version} by unimodal {description.get('unimodal')}; "
            f"this version reads up to {FORMAT}: upgrade unimodal"
        )
    numbers = (folder / _ARRAYS).read_bytes()
    own = description.pop("sha256")
    if own != _hash(_text(description).encode()) or description["arrays_sha256"] != _hash(numbers):
        raise ValueError("its contents are not those that were saved")
    return from_state(description["model"], load_arrays(numbers))


class _NewerFormatError(Exception):
    pass


def _is_model(folder: Path) -> bool:
    return (folder / _DESCRIPTION).is_file()


def _is_nothing_but_a_model(folder: Path) -> bool:
    """Whether nobody loses anything else if the folder is replaced; it may be empty."""
    if not folder.is_dir():
        return False
    return {each.name for each in folder.iterdir()} in (set(), {_DESCRIPTION, _ARRAYS})


def _text(state: dict[str, Any]) -> str:
    """The same text for equal states."""
    return json.dumps(state, sort_keys=True, allow_nan=False)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

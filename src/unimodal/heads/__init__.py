"""Heads: what distribution a network's outputs mean. One file per family."""

from unimodal.heads.base import ExceedanceHead, Head
from unimodal.heads.counts import Binomial, Poisson
from unimodal.heads.cumulative import CumulativeLink
from unimodal.heads.encoding import OrdinalEncoding, UnorderedThresholds
from unimodal.heads.ordered import OrderedAdjacentCategories, VShapedStereotype
from unimodal.heads.softmax import Softmax
from unimodal.heads.stick_breaking import StickBreaking
from unimodal.heads.unimodalnet import UnimodalNet

__all__ = [
    "Binomial",
    "CumulativeLink",
    "ExceedanceHead",
    "Head",
    "OrderedAdjacentCategories",
    "OrdinalEncoding",
    "Poisson",
    "Softmax",
    "StickBreaking",
    "UnimodalNet",
    "UnorderedThresholds",
    "VShapedStereotype",
]

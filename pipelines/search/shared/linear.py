"""The table of linear models, whose kinds of shared work stand in files of their own."""

from __future__ import annotations

from pipelines.search.shared.least_squares import ElasticNets, Ridges
from pipelines.search.shared.logistic import LogisticRegressions

SHARED_FITS = (Ridges(), ElasticNets(), LogisticRegressions())

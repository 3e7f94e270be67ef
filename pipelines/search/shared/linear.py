"""The shared fits of linear models; each is in a file of its own."""

from __future__ import annotations

from pipelines.search.shared.least_squares import ElasticNets, Ridges
from pipelines.search.shared.logistic import LogisticRegressions

SHARED_FITS = (Ridges(), ElasticNets(), LogisticRegressions())

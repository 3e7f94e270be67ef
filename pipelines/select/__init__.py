"""Model selection of anything: cells, one rule for the best, scoring, calibration."""

"""Shuffled batches of rows, from wherever the rows live: map, cache, shuffle, batch, prefetch."""

from pipelines.data.batches.batches import Batch, Batches
from pipelines.data.batches.homes import DeviceRows, HostRows, Rows
from pipelines.data.batches.parquet import ParquetRows, write_rows

__all__ = ["Batch", "Batches", "DeviceRows", "HostRows", "ParquetRows", "Rows", "write_rows"]

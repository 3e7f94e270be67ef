"""Shuffled batches of rows, from wherever the rows live: map, cache, shuffle, batch, prefetch."""

from pipelines.data.batches.batches import Batch, Batches
from pipelines.data.batches.parquet import ParquetRows, write_rows
from pipelines.data.batches.storage import DeviceRows, HostRows, Rows

__all__ = ["Batch", "Batches", "DeviceRows", "HostRows", "ParquetRows", "Rows", "write_rows"]

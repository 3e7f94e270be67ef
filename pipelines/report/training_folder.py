"""What a run of ``data_parallel`` left in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.data_parallel import TrainingRecord

PLACE = ("strategy", "ranks", "repeat", "epoch")


@dataclass(frozen=True)
class TrainingRun(Run[TrainingRecord]):
    """A run of trainings: ``cells`` has a row for each epoch of each."""

    @property
    def epochs(self) -> pd.DataFrame:
        """Epochs that ended, of trainings that did not fail."""
        if "seconds" not in self.cells:
            return self.cells.iloc[:0]
        return self.cells[self.cells["seconds"].notna()]


def read_training_run(folder: Path) -> TrainingRun:
    """Read the folder of a run of ``data_parallel``; raises what ``read_run`` raises."""
    return TrainingRun(**vars(read_run(folder, place=PLACE, cells_file=names.EPOCHS)))

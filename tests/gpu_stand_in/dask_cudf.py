"""pandas in dask-cudf's place."""

import pandas as pd
from cupy import note

note("import-dask-cudf")


def from_delayed(futures):
    return pd.concat([future.result() for future in futures])

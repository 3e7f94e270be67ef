"""scikit-learn in cuML's place."""

import cupy

cupy.note("import-cuml")

"""Records the searches of a script, in the script's own process; loaded by Python as it starts.

Where ``SCRIPT_SEARCHES`` names a file, the outermost calls of scikit-learn's searches are timed
and their results written there when the process ends. Processes that the script starts
are left as they are.
"""

from __future__ import annotations

import json
import os

if (_path := os.environ.pop("SCRIPT_SEARCHES", None)) is not None:
    from benchmarks.scripts.recording import answer_addresses, record_searches

    record_searches(_path)
    if _copies := json.loads(os.environ.pop("SCRIPT_ADDRESSES", "{}")):
        answer_addresses(_copies)

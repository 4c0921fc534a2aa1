"""Every test has a workspace that is nobody's, however pytest is started: a learner's `work/` is never written to."""

import os
import tempfile

_WORK = tempfile.TemporaryDirectory(prefix="lab-test-", ignore_cleanup_errors=True)
os.environ["LAB_WORK"] = _WORK.name  # also for the processes that tests start

"""Exit codes of the commands and of results."""

from __future__ import annotations

EXIT_PASSED = 0
"""The command did its work; criteria, if there are some, are met."""
EXIT_CRITERION = 1
"""A criterion or a gate failed, or could not be evaluated."""
EXIT_CONFIG = 2
"""The configuration or the command line is invalid."""
EXIT_RUN = 3
"""The run failed, was stopped, or has no result."""
EXIT_INCONCLUSIVE = 4
"""A comparison or a criterion is inconclusive."""
EXIT_PENDING = 5
"""The run waits for batches at a provider."""

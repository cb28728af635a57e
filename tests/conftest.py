"""Settings of the test run: how many examples a property is tried on.

`make test` uses the profile `ci`: the same examples in each run, so that a failure is a change of
the code. `make test-full` sets HYPOTHESIS_PROFILE=full: new random examples, twenty times as many.
A test therefore does not set `max_examples` itself.
"""

import os

from hypothesis import settings

CI_EXAMPLES = 50

# No deadline: the machine's load is no property of the code.
settings.register_profile("ci", max_examples=CI_EXAMPLES, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=20 * CI_EXAMPLES, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

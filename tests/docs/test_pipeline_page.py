"""The examples of docs/concepts/pipeline.md do what the page shows."""

import doctest
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "pipeline.md").read_text("utf-8")


def test_examples() -> None:
    text = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "pipeline.md", None, 0))
    assert runner.failures == 0
    assert runner.tries > 5

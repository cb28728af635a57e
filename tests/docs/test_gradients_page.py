"""docs/concepts/gradients.md: its examples do what it shows, and its table of pairs is what the planner gives."""

import re

import pytest

from tests.autodiff.pairs import table

from .examples import CONCEPTS, run_python

FILE = CONCEPTS / "gradients.md"
PAGE = FILE.read_text("utf-8")
PAIRS = re.compile(r"(?<=<!-- pairs: begin -->\n).*?(?=<!-- pairs: end -->)", re.S)


def test_examples() -> None:
    ran = run_python(FILE.name)
    assert ran.failed == 0
    assert ran.attempted > 20


def test_the_table_of_pairs_is_what_the_planner_gives(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        FILE.write_text(PAIRS.sub(table(), PAGE), "utf-8")
    (shown,) = PAIRS.findall(FILE.read_text("utf-8"))
    assert shown == table(), "--update-golden writes it anew"


def test_every_wrong_rule_of_the_page_is_tested() -> None:
    """The page lists as many as there are tests of its parts."""
    wrong = PAGE.partition("## Tempting and wrong")[2]
    tests = (FILE.parents[2] / "tests" / "autodiff" / "test_wrong_rules.py").read_text("utf-8")
    for phrase, test in {
        "its transpose": "backward_is_the_transpose",
        "Partial value is Partial": "gradient_of_partial_is_partial",
        "operand is replicated": "raw_is_the_operand",
        "always a sum": "raw_is_partial_wherever_it_is_not_sharded",
        "of one shape can be added": "unequal_gradients_are_added",
        "bias is added on every rank": "addends_are_added_on_every_rank",
        "P + 1 is linear": "test_what_is_not_linear_has_no_term",
        "means is the mean": "test_the_mean_of_local_means_is_not_the_mean",
        "microbatches": "test_the_mean_of_microbatches_means_is_not_the_mean",
        "Average the gradients": "test_gradients_are_not_averaged_over_ranks",
        "minor factor": "test_a_minor_factor_is_not_sharded_by_divisibility",
        "is not `[b·a]`": "the_order_of_axes_does_not_matter",
        "nested chunks": "test_nested_chunks_are_not_flat_chunks",
        "start at 0": "test_facts_of_the_whole_tensor_are_not_facts_of_a_shard",
        "random generator": "test_independent_generators_do_not_make_dropout",
        "norm of the gradients": "test_the_norm_counts_replicas_once",
        "loss is right": "test_a_right_loss_says_nothing_about_the_backward",
    }.items():
        assert phrase in wrong, phrase
        assert test in tests, test

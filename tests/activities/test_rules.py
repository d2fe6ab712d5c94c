"""Rules on arguments: total, bounded, and what they can't tell is asked."""

import math
import resource

import pytest

from activities.rules import check_rule, verdict
from core.asking import Asking, RuleVerdict
from core.errors import InputError

DEEP: dict[str, object] = {"a": [[1, 2], [3, [4, 5]]], "text": "x" * 100, "path": "reports/a.md", "amount": 500}


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("amount > `100`", "holds"),
        ("amount > `1000`", "not"),
        ("starts_with(path, 'reports/')", "holds"),
        ("amount", "unknown"),
        ("missing > `1`", "unknown"),
        ("path > `1`", "unknown"),
        ("length(amount) > `1`", "unknown"),
        ("a[::0] == `1`", "unknown"),
        ("avg(`[]`) > `0`", "unknown"),
        ("sum(`[1e308, 1e308]`) > `0`", "holds"),
        ("sort(a) == `[]`", "unknown"),
    ],
)
def test_what_a_rule_says(rule: str, says: RuleVerdict) -> None:
    """Yes, no, or neither; nothing raises, also where it divides by nothing."""
    assert verdict(Asking(when=rule), DEEP) == says


@pytest.mark.parametrize(
    "rule",
    [
        "[text" + ", text" * 20 + "] | join(@[0], @)" + " | join(@, [@" + ",'a'" * 40 + "])" * 4 + " | length(@) > `1`",
        "@" + " | [@,@][]" * 60 + " | length(@) > `1`",
        "@" + " | [@,@]" * 100 + " | length(to_string(@)) > `1`",
        "[@]" + " | {a: @, b: @}" * 60 + " | to_string(@) == 'x'",
        "text" + " | join(@, [@,@,@])" * 40 + " | length(@) > `1`",
        "[@,@]" + " | [*][@,@]" * 25 + " | length(@[]) > `1`",
        "[@" + " | [@,@]" * 60 + ", @" + " | [@,@]" * 60 + "] | [0] == [1]",
    ],
    ids=["a long text between many", "flattened", "shared", "shared fields", "texts", "projected", "compared"],
)
def test_a_rule_that_would_grow_without_end_is_not_answered(rule: str) -> None:
    """Neither memory nor time: then a person is asked."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert verdict(Asking(when=rule), DEEP) == "unknown"
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < 1_000_000_000


@pytest.mark.parametrize("rule", ["amount > `100`", "amount == `1`", "to.share < `1`", "length(all) > `0`"])
def test_what_is_not_a_number_is_asked(rule: str) -> None:
    """Else it would get round every limit: it is neither more nor less than anything."""
    arguments = {"amount": math.nan, "to": {"share": math.nan}, "all": [math.nan]}
    assert verdict(Asking(when=rule), arguments) == "unknown"


def test_long_arguments_are_looked_at_whole() -> None:
    """A bound that sensible rules reach would ask for nothing."""
    rows = [{"id": number, "text": "x" * 40} for number in range(20_000)]
    assert verdict(Asking(when="length(rows[?id > `19998`]) == `1`"), {"rows": rows}) == "holds"
    assert verdict(Asking(when="contains(text, 'y')"), {"text": "x" * 3_000_000}) == "not"


@pytest.mark.parametrize("rule", ["amount >", "(" * 999, "nobody(amount) &&", "a[", "'"])
def test_a_rule_that_can_not_be_read_is_refused_when_a_run_starts(rule: str) -> None:
    """With the tool's name."""
    with pytest.raises(InputError, match="approval of pay: the rule"):
        check_rule("pay", Asking(when=rule))

"""Roles: groups of people that policies name; what is pinned and asked knows people only."""

import pytest
from pydantic import ValidationError

from core.agents import AgentHeader

TOP = {"name": "payer", "description": "Pays.", "tools": ["pay", "look"]}


def header(roles: object, approval: object) -> AgentHeader:
    """An agent with these roles and policies."""
    return AgentHeader.model_validate({**TOP, "roles": roles, "approval": approval})


def test_a_role_means_its_people_each_once_and_counts_as_many() -> None:
    """Also for the quorum, and where the deadline leads."""
    policy = {"approvers": ["finance", "ana", "eve"], "needed": 3, "expires": "PT1H", "at_deadline": "escalate"}
    agent = header(
        {"finance": ["ana", "ben"], "bosses": ["zoe", "dan", "kim"]}, {"pay": {**policy, "escalate_to": ["bosses"]}}
    )
    assert agent.approval["pay"].approvers == ("ana", "ben", "eve")
    assert agent.approval["pay"].escalate_to == ("zoe", "dan", "kim")
    again = AgentHeader.model_validate_json(agent.model_dump_json())
    assert again == agent


def test_without_roles_names_are_people() -> None:
    """And policies of one word stay as they are."""
    agent = header({}, {"pay": {"approvers": ["finance"]}, "look": "auto"})
    assert (agent.approval["pay"].approvers, agent.approval["look"].mode) == (("finance",), "auto")


@pytest.mark.parametrize(
    ("roles", "approval", "why"),
    [
        ({"finance": []}, {}, "finance must be a list of 1 to 50 people"),
        ({"finance": "ana"}, {}, "finance must be a list of 1 to 50 people"),
        ({"finance": [3]}, {}, "finance must be a list of 1 to 50 people"),
        ({"finance": [f"p{n}" for n in range(51)]}, {}, "finance must be a list of 1 to 50 people"),
        ({"finance": ["ana"], "ana": ["ben"]}, {}, "ana is a role and a person"),
        ({"finance": ["ana"]}, {"pay": {"approvers": ["finance"], "needed": 2}}, "needs 2 approvals"),
        ({"finance": ["ana"]}, {"pay": {"approvers": [["finance"]]}}, "valid string"),
        ([], {}, "valid dict"),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_file_is_read(roles: object, approval: object, why: str) -> None:
    """With the role and the cure."""
    with pytest.raises(ValidationError, match=why):
        header(roles, approval)

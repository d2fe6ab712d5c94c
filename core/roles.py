"""Roles of people who decide: names for groups, written out when an agent's file is read, so that rules know people."""

from collections.abc import Iterable, Mapping
from typing import Any

ROLES = 50
PEOPLE = 50
"""Most roles of an agent, and most people of a role or a policy."""


def expanded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an agent's fields with people instead of roles in its approval policies. What is malformed stays as it is.

    Raises:
        ValueError: a role is empty, too long, or called like a person.
    """
    roles, approval = fields.get("roles"), fields.get("approval")
    if not isinstance(roles, Mapping) or not roles:
        return dict(fields)
    known = {str(name): _people(str(name), people) for name, people in roles.items()}
    if both := sorted({name for people in known.values() for name in people} & set(known)):
        raise ValueError(f"roles: {', '.join(both)} is a role and a person; give one of them another name")
    if not isinstance(approval, Mapping):
        return dict(fields)
    return {**fields, "approval": {tool: _policy(policy, known) for tool, policy in approval.items()}}


def _people(role: str, people: Any) -> tuple[str, ...]:
    is_list = isinstance(people, list | tuple) and all(isinstance(name, str) and name.strip() for name in people)
    if not is_list or not 0 < len(people) <= PEOPLE:
        raise ValueError(f"roles: {role} must be a list of 1 to {PEOPLE} people, such as [ana, ben]")
    return tuple(people)


def _policy(policy: Any, roles: Mapping[str, tuple[str, ...]]) -> Any:
    if not isinstance(policy, Mapping):
        return policy
    named = {
        field: policy[field] for field in ("approvers", "escalate_to") if isinstance(policy.get(field), list | tuple)
    }
    return {**policy, **{field: _written_out(names, roles) for field, names in named.items()}}


def _written_out(names: Iterable[Any], roles: Mapping[str, tuple[str, ...]]) -> tuple[Any, ...]:
    people = [person for name in names for person in (roles.get(name, (name,)) if isinstance(name, str) else (name,))]
    return tuple(dict.fromkeys(people)) if all(isinstance(person, str) for person in people) else tuple(people)

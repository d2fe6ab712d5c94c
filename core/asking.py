"""When a person is asked before a tool runs, who may decide, and until when: the policy, and what it says of a call.

| the policy says | and | the call |
|---|---|---|
| `auto` | nothing strange was read, and the run is not dear | runs |
| `deny` | | is refused |
| `ask` | its rule does not hold, or a person allowed the tool for the rest of the run | runs |
| `ask` | anything else: its rule holds, can't be evaluated, or there is none | waits for a person |
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from core.frozen import Sparse
from core.public_keys import read_key
from core.roles import PEOPLE

Approval = Literal["auto", "ask", "deny"]
RuleVerdict = Literal["holds", "not", "unknown"]
Deadline = Literal["reject", "escalate"]

REASON_CHARACTERS = 300
NAME_CHARACTERS = 200
"""Longest name of somebody who decides: that of an act's `by`."""


class Asking(Sparse):
    """An agent's policy for one tool. In its file it may also be the one word `auto`, `ask` or `deny`."""

    mode: Approval = "ask"
    when: str = Field(default="", max_length=1000)
    """JMESPath over the arguments: a person is asked only when it holds, such as "amount > `100`". Empty: always."""
    when_tainted: bool = False
    """Whether a person is asked, whatever else holds, once the run has read what strangers wrote."""
    above_usd: float | None = Field(default=None, ge=0)
    """Whether a person is asked once the run has cost more than this; a cost that is not known counts as more."""
    approvers: tuple[str, ...] = Field(default=(), max_length=PEOPLE)
    """Who may decide, by name; empty: anybody. In an agent's file also by role."""
    keys: dict[str, str] = Field(default_factory=dict, max_length=50)
    """Public keys of approvers, by name: then only what they signed counts. `approvers` left out: whoever has one."""
    needed: int = Field(default=1, ge=1, le=20)
    """How many different people must approve; one who rejects decides alone."""
    exclude_requester: bool = False
    """Whether who started the run may not decide."""
    expires: timedelta | None = Field(default=None, gt=timedelta(0))
    """How long a request waits; None: for ever. It is never approved by waiting."""
    at_deadline: Deadline = "reject"
    escalate_to: tuple[str, ...] = Field(default=(), max_length=PEOPLE)
    """Who may decide after the deadline, within as long again; then the call is rejected."""
    remind: timedelta | None = Field(default=None, gt=timedelta(0))
    """How often a request that waits is shown again."""
    default_answer: str = Field(default="", max_length=2000)
    """For a question (`ask_human`): what the agent is told when nobody has answered at the deadline."""
    reason: str = Field(default="", max_length=REASON_CHARACTERS)
    """Why a person is asked, for that person."""
    risk: str = Field(default="", max_length=REASON_CHARACTERS)

    @model_validator(mode="before")
    @classmethod
    def _one_word(cls, value: Any) -> Any:
        return {"mode": value} if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _who_has_a_key_decides(cls, value: Any) -> Any:
        """Fill in approvers; who is only asked after the deadline is none of them, unless there is nobody else."""
        if not isinstance(value, Mapping) or not isinstance(keys := value.get("keys"), Mapping):
            return value
        later = value.get("escalate_to") or ()
        first = [name for name in keys if not isinstance(later, list | tuple) or name not in later]
        return value if value.get("approvers") else {**value, "approvers": tuple(first or keys)}

    @model_validator(mode="after")
    def _keys_fit(self) -> "Asking":
        deciders = dict.fromkeys((*self.approvers, *self.escalate_to))
        if not self.keys:
            return self
        owners: dict[bytes, str] = {}
        for name, text in self.keys.items():
            if not 0 < len(name) <= NAME_CHARACTERS:
                raise ValueError(f"keys: a name has 1 to {NAME_CHARACTERS} characters")
            try:
                other = owners.setdefault(read_key(text), name)
            except ValueError as error:
                raise ValueError(f"the key of {name} {error}") from None
            if other != name:
                raise ValueError(f"{other} and {name} have the same key: each needs their own")
        if without := [name for name in deciders if name not in self.keys]:
            raise ValueError(f"there is no key of {', '.join(without)}: with keys, everybody who may decide needs one")
        if strangers := [name for name in self.keys if name not in deciders]:
            raise ValueError(f"there are keys of {', '.join(strangers)}, who may not decide: name them as approvers")
        return self

    @model_validator(mode="after")
    def _can_be_met(self) -> "Asking":
        if self.when and self.mode != "ask":
            raise ValueError(f"a rule (when) is for mode ask, not for {self.mode}: nobody would be asked")
        if self.approvers and len(set(self.approvers)) < self.needed:
            raise ValueError(f"needs {self.needed} approvals, and names only {len(set(self.approvers))} approvers")
        if (self.at_deadline == "escalate") != bool(self.escalate_to):
            raise ValueError("at_deadline: escalate and escalate_to belong together")
        if self.at_deadline == "escalate" and self.expires is None:
            raise ValueError("escalates at a deadline, and has none: say when it expires")
        if self.escalate_to and len(set(self.escalate_to)) < self.needed:
            raise ValueError(f"needs {self.needed} approvals, and escalates to fewer people")
        return self


def request_digest(tool: str, arguments: str, definition_digest: str, asking: Asking) -> str:
    """Return the SHA-256 (hex) of what is asked for: another call, or another policy, is another request."""
    parts = (tool, arguments, definition_digest, asking.model_dump_json())
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

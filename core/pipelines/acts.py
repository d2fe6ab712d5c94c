"""What people may do to a run of a pipeline: as to an agent's run, by the same rules. Pure; nothing raises."""

from datetime import datetime
from typing import Literal

from core.acts import EXAMPLES, ActName, read_act
from core.approvals import Taken, act_on
from core.call_entries import Decided, Forwarded, Revoked, Settled
from core.content import one_line
from core.entries import Paused, Refused, Resumed
from core.pipelines.state import PipelineState, for_people
from core.signing import Signatures

PipelineAct = Literal["approve", "reject", "revoke", "settle", "pause", "resume"]
PIPELINE_ACTS: tuple[PipelineAct, ...] = ("approve", "reject", "revoke", "settle", "pause", "resume")
OfPipeline = Decided | Revoked | Settled | Paused | Resumed | Refused | Forwarded


def act_on_pipeline(
    state: PipelineState, name: ActName, raw: bytes, now: datetime, signatures: Signatures | None = None
) -> OfPipeline:
    """Read a person's act and return what comes of it: the decision, or why it is refused."""
    act = read_act(raw, EXAMPLES[name])
    below = not isinstance(act, str) and "/" in act.id
    if name not in PIPELINE_ACTS and not below:
        return _refused(name, f"a pipeline takes {', '.join(PIPELINE_ACTS)}; name a run below for others", now)
    if not isinstance(act, str) and name == "approve" and not below:
        if act.arguments is not None or act.content is not None:
            return _refused(
                name, "a step's arguments are those of its pipeline: reject it, or approve it as it is", now
            )
        if act.scope == "run":
            return _refused(name, "a step is approved by itself; leave scope out", now)
    taken = act_on(for_people(state), name, raw, now, signatures)
    return _of_pipeline(name, taken, now)


def _of_pipeline(name: str, taken: Taken, now: datetime) -> OfPipeline:
    if isinstance(taken, OfPipeline):
        return taken
    return _refused(name, f"a pipeline takes {', '.join(PIPELINE_ACTS)}", now)


def _refused(name: str, why: str, now: datetime) -> Refused:
    return Refused(at=now, act=one_line(name, 60), why=one_line(why, 500))

"""What a run makes of people's acts, and how it checks signatures: by Ed25519, which says the same each time."""

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from core.acts import ActName
    from core.approvals import Taken, act_on
    from core.signing import Signatures
    from workflows.held import HeldState


def taken_by(run: HeldState, name: ActName, act: RawValue) -> Taken:
    """Return what comes of a person's act now: the decision, or why it is refused. Changes nothing, never raises."""
    signatures = Signatures(run=run.spec.run, verify=is_signed_by) if run.spec is not None else None
    return act_on(run.state, name, act.payload.data, workflow.now(), signatures)


def is_signed_by(key: bytes, message: bytes, signature: bytes) -> bool:
    """Say whether the owner of a public key signed a message. Never raises.

    `cryptography` imports parts of its own only when it needs them. Let into the sandbox anew they would not be the
    same: no `except` knows an exception of theirs, and where the import is refused, the whole process is aborted.
    """
    with workflow.unsafe.imports_passed_through():
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

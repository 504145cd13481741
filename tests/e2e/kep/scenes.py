"""One scene for each constrained mode: a caller, a target, and the two rules that open it."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.e2e.kep.cast import Cast
from tests.support.impersonation import Caller, Header, Rights, Rule, as_user, may, may_be, may_do

MODES = ("associated-node", "arbitrary-node", "serviceaccount", "user-info")


@dataclass(frozen=True, slots=True)
class Scene:
    """A caller without rights, and a target that may list the pods of a node."""

    mode: str
    caller: Caller
    target: str
    identity: Rule
    """Opens the target in this mode."""
    node: str

    @property
    def action(self) -> Rule:
        """Opens the listing of pods in this mode."""
        return may_do(self.mode, "list")

    @property
    def path(self) -> str:
        """The listing that every target may do. A node may list its own pods only."""
        return f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.node}"

    @property
    def headers(self) -> Sequence[Header]:
        """Ask for the target."""
        return as_user(self.target)


def set_scene(mode: str, cast: Cast, rights: Rights) -> Scene:
    """Return a fresh scene of a mode."""
    node = cast.node()
    if mode == "associated-node":
        agent = cast.service_account(node=node)
        return Scene(mode, agent, f"system:node:{node}", may_be(mode, "nodes"), node)
    caller = cast.user("impersonator")
    if mode == "arbitrary-node":
        return Scene(mode, caller, f"system:node:{node}", may_be(mode, "nodes", node), node)
    if mode == "serviceaccount":
        robot = cast.service_account()
        rights.grant(robot, may("list"))
        account = may_be(mode, "serviceaccounts", robot.subject["name"])
        return Scene(mode, caller, robot.name, account, node)
    bob = cast.user("bob")
    rights.grant(bob, may("list"))
    return Scene(mode, caller, bob.name, may_be(mode, "users", bob.name), node)

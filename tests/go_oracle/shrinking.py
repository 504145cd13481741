"""From a disagreement to its smallest form: what is left is what it takes."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from proxy.core.userinfo import UserInfo
from tests.go_oracle.cases import Script, ScriptedAnswer, Sequence, Step

_YES = (ScriptedAnswer("allow"),)
_NO = (ScriptedAnswer("deny"),)


def shrink(sequence: Sequence, is_wrong: Callable[[Sequence], bool]) -> Sequence:
    """Return a sequence that is still wrong and cannot lose any one part more."""
    while True:
        for candidate in _smaller(sequence):
            if is_wrong(candidate):
                sequence = candidate
                break
        else:
            return sequence


def _smaller(sequence: Sequence) -> Iterator[Sequence]:
    for index, step in enumerate(sequence.steps):
        before, after = sequence.steps[:index], sequence.steps[index + 1 :]
        if before or after:
            yield replace(sequence, steps=before + after)
        for smaller in _smaller_steps(step):
            yield replace(sequence, steps=(*before, smaller, *after))


def _smaller_steps(step: Step) -> Iterator[Step]:
    for index, (name, _) in enumerate(step.headers):
        if name != b"Host":
            yield replace(step, headers=step.headers[:index] + step.headers[index + 1 :])
    for target in _smaller_targets(step.target):
        yield replace(step, target=target)
    for requestor in (UserInfo("bob"), UserInfo(step.requestor.name, extra=step.requestor.extra)):
        if len(repr(requestor)) < len(repr(step.requestor)):
            yield replace(step, requestor=requestor)
    if step.method != b"GET":
        yield replace(step, method=b"GET")
    for script in _simpler_scripts(step.script):
        yield replace(step, script=script)


def _smaller_targets(target: bytes) -> Iterator[bytes]:
    plain = b"/api/v1/pods"
    if len(target) > len(plain):
        yield plain
    path, mark, query = target.partition(b"?")
    if mark:
        yield path
    pairs = query.split(b"&")
    for index in range(len(pairs) if len(pairs) > 1 else 0):
        yield path + b"?" + b"&".join(pairs[:index] + pairs[index + 1 :])
    for start in range(1, len(target)):
        yield target[:start] + target[start + 1 :]


def _simpler_scripts(script: Script) -> Iterator[Script]:
    for answers in (_YES, _NO):
        if script.action not in (_YES, _NO):
            yield replace(script, action=answers)
        if script.identity not in (_YES, _NO):
            yield replace(script, identity=answers)
        if script.legacy not in (_YES, _NO):
            yield replace(script, legacy=answers)

"""Playing one operation over a wire that fails, and looking at what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import omnigraph as og
from crash.suspension.cases import Case, Verdict
from crash.suspension.operations import VICTIM, act_of
from crash.suspension.play import LEASE_SECONDS, LONG_LEASE_SECONDS, Play, environment_of
from crash.suspension.work import Answer, answer_of
from servers.faulty_proxy import Disturbance, FaultyProxy

if TYPE_CHECKING:
    from crash.suspension.scene import Lane, Serial
    from crash.zygote import Zygote

# Clients give up soon, so that an outage of the store is one for the operation, too.
IMPATIENT = {"client_max_retries": "2", "client_retry_timeout": "2"}
QUIET = Disturbance("503", "before", at=1_000_000)


@dataclass(frozen=True)
class WireCase(Case):
    """One operation, disturbed at one of its requests that change something."""

    disturbance: Disturbance = QUIET

    def __str__(self) -> str:
        return f"{self.operation}, request {self.disturbance.at}: {self.disturbance}"


def wire_cases(operation: str, requests: int) -> list[WireCase]:
    """Every case of an operation that makes so many requests that change something."""
    told = [
        Disturbance(fault, moment, at, lasting)
        for at in range(1, requests + 1)
        for lasting in (False, True)
        for fault, moment in (("503", "before"), ("503", "after"), ("cut", "before"), ("cut", "after"))
    ]
    told += [Disturbance("slow", "after", at) for at in range(1, requests + 1)]
    return [WireCase(operation, each.at, "lost", disturbance=each) for each in told]


def perform(uri: str, who: str, name: str, branch: str, options: dict[str, str]) -> Answer:
    """Do one thing, and tell what the caller was told."""
    try:
        act_of(who, name, branch)(og.open(uri, actor=who, storage_options=options), who)
    except Exception as error:  # noqa: BLE001 - whatever a caller would see
        return answer_of(error)
    return Answer()


class WirePlay(Play):
    """One case, at one place, through a proxy of its own."""

    def __init__(self, case: WireCase, lane: Lane, serial: Serial, zygote: Zygote, upstream: str) -> None:
        super().__init__(case, lane, serial, zygote)
        self._upstream = upstream
        self._disturbance = case.disturbance
        self.requests = 0

    def _disturb(self) -> bool:
        with FaultyProxy(self._upstream, self._disturbance) as proxy:
            # An answer that is slower than the lease costs the operation nothing but time.
            lease = LEASE_SECONDS if self._disturbance.fault == "slow" else LONG_LEASE_SECONDS
            victim = self.zygote.start(
                perform, self.lane.uri, VICTIM, self.case.operation, self.case.branch, IMPATIENT,
                environment=environment_of(lease) | {"AWS_ENDPOINT_URL_S3": proxy.endpoint},
            )  # fmt: skip
            self._children.append(victim)
            self._end(VICTIM, victim)
            self.requests = proxy.durable
            answer = self.answers[VICTIM]
            if self._disturbance.fault == "slow" and not answer.is_done:
                self.wrong.append(f"a slow answer failed the operation: {answer}")
            return proxy.happened


def play_over_wire(case: WireCase, lane: Lane, serial: Serial, zygote: Zygote, upstream: str) -> Verdict:
    """Play a case; what went wrong with playing it is a violation, too."""
    try:
        return WirePlay(case, lane, serial, zygote, upstream).run()
    except Exception as error:  # noqa: BLE001 - the others are still played
        return replace(Verdict(case), wrong=[f"it could not be played: {type(error).__name__}: {error}"])


def requests_of(operation: str, lane: Lane, serial: Serial, zygote: Zygote, upstream: str) -> int:
    """How many requests of an operation change something when nothing disturbs it."""
    peaceful = WirePlay(WireCase(operation, 0, "lost"), lane, serial, zygote, upstream)
    peaceful.run()
    assert peaceful.answers[VICTIM].is_done, f"{operation} fails in peace: {peaceful.answers[VICTIM]}"
    return peaceful.requests

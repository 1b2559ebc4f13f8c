"""NATS, as far as servers use it for hints: each one reaches one subscriber of the group, or gets lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Any, NamedTuple

from tests.sim.faults import Faults, Record
from tests.sim.network import OUTSIDE
from tests.sim.virtual import Node, VirtualLoop

MAX_LATENCY = 0.01

Receive = Callable[[Any], Coroutine[Any, Any, None]]


class BrokerSubscription(NamedTuple):
    broker: Broker
    server: Node
    subject: str
    receive: Receive

    async def unsubscribe(self) -> None:
        self.broker.subscriptions.remove(self)


class Broker:
    def __init__(
        self, loop: VirtualLoop, random: Random, faults: Faults, record: Record, is_faulty: Callable[[], bool]
    ) -> None:
        self.loop, self.random, self.faults, self.record, self.is_faulty = loop, random, faults, record, is_faulty
        self.subscriptions: list[BrokerSubscription] = []
        self.delivered = 0

    def publish(self, server: Node, subject: str) -> None:
        if self.is_faulty() and self.faults.happens("lost hint"):
            self.record(server.name, f"FAULT lost hint: {subject}")
        else:
            OUTSIDE.run(self.loop.call_later, self.random.random() * MAX_LATENCY, self._deliver, server, subject)

    def _deliver(self, sender: Node, subject: str) -> None:
        subscriptions = [
            subscription
            for subscription in self.subscriptions
            if subscription.subject == subject and subscription.server is not sender and not subscription.server.is_dead
        ]
        if subscriptions:
            self.delivered += 1
            subscription = self.random.choice(subscriptions)
            subscription.server.spawn(subscription.receive(None))


class BrokerConnection:
    """The connection of a server: its NatsConnection and its client."""

    def __init__(self, broker: Broker, server: Node) -> None:
        self.broker, self.server = broker, server
        self.on_connect: list[Callable[[], Awaitable[None]]] = []

    @property
    def client(self) -> BrokerConnection:
        return self

    async def publish(self, subject: str) -> None:
        self.broker.publish(self.server, subject)

    async def subscribe(self, subject: str, group: str, receive: Receive) -> BrokerSubscription:
        subscription = BrokerSubscription(self.broker, self.server, subject, receive)
        self.broker.subscriptions.append(subscription)
        return subscription

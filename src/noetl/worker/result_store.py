"""Stores large results of tasks, and bytes, where the playbook configures: the result becomes a reference."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from noetl.engine.limits import encoded_size
from noetl.errors import NoetlError
from noetl.model.outcome import Failure, Outcome, failed
from noetl.pipeline.plan import TaskPlan
from noetl.reference import BINARY, Reference, refer, reference_to
from noetl.results.stores import bucket_of, fault_of, in_bucket, write_file, write_object
from noetl.store.codec import check_value
from noetl.worker.link import Link
from noetl.worker.work import Work

SHAPES = {b"{": "map", b"[": "list", b'"': "text"}  # hints about JSON by its first byte


def is_small(result: object) -> bool:
    return result is None or type(result) is bool or (type(result) is int and -(2**63) <= result < 2**63)


class ResultStore:
    """Stores results of one lease; those for the database wait in `blobs` for the next report."""

    def __init__(self, link: Link, work: Work, blobs: dict[str, bytes]) -> None:
        self.link, self.work, self.blobs = link, work, blobs

    async def store(self, plan: TaskPlan, outcome: Outcome) -> Outcome:
        """The outcome with a result that can be part of an event; an error if it cannot be stored."""
        try:
            result = await self._stored(plan, outcome.result)
        except Failure as failure:
            return failure.outcome
        except RecursionError:
            return failed("input", f"the result of {plan.kind.name} is nested too deeply to be stored")
        except (NoetlError, TypeError, ValueError, msgspec.MsgspecError) as error:
            return failed("input", f"the result of {plan.kind.name} cannot be stored: {str(error).lstrip(': ')}")
        return outcome if result is outcome.result else msgspec.structs.replace(outcome, result=result)

    async def _stored(self, plan: TaskPlan, result: Any) -> Any:
        """The result, or a reference to it. Bytes are stored at any size: JSON has none."""
        if isinstance(result, bytes):
            return await self._put(plan, reference_to(result, hint=BINARY), result)
        if isinstance(result, msgspec.Raw):
            content = bytes(result)
            return await self._put(plan, reference_to(content, hint=SHAPES.get(content[:1], "number")), content)
        if isinstance(result, dict) and any(isinstance(value, bytes) for value in result.values()):
            result = {
                key: await self._stored(plan, value) if isinstance(value, bytes) else value
                for key, value in result.items()
            }
        limit = plan.task.spec.get("results", {}).get("inline_bytes", self.work.inline_bytes)
        if encoded_size(result, limit) > limit:
            return await self._put(plan, *refer(result))
        check_value(result)
        return result

    async def _put(self, plan: TaskPlan, reference: Reference, content: bytes) -> Reference:
        """Write to a file or an object store; or with the next report to the database, and perhaps NATS."""
        store = plan.task.spec.get("results", {}).get("store") or self.work.result_store
        match store.get("kind"):
            case "file":
                return await asyncio.to_thread(write_file, store.get("path", ".noetl/results"), reference, content)
            case "object":
                if (fault := fault_of(store["url"])) is not None:
                    raise Failure("not_found", fault)
                return await asyncio.to_thread(write_object, store["url"], reference, content)
        size, most = len(content), self.link.most_content
        if most is not None and size > most:
            message = (
                f"the result of {plan.kind.name} has {size:,} bytes, and a server accepts at most {most:,} from a "
                "worker: store it elsewhere (`spec.results.store` of kind `file` or `object`), or return less"
            )
            raise Failure("too_large", message, size=size, limit=most)
        self.blobs[reference.key] = content
        if store.get("kind") != "nats_object":
            return reference
        await self.link.contents.put_in_bucket(bucket_of(store), reference.key, content)
        return in_bucket(reference, bucket_of(store))

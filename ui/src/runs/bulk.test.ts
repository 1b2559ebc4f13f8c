import assert from "node:assert/strict";
import { test } from "node:test";
import { each } from "./bulk.ts";

test("six requests run at a time, and each run has its result", async () => {
  let [running, most] = [0, 0];
  const ids = Array.from({ length: 20 }, (_, place) => String(place));
  const seen: string[] = [];
  const results = await each(
    ids,
    async (id) => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
      if (id === "7") throw new Error("it has ended");
    },
    ({ id }) => seen.push(id),
  );
  assert.equal(most, 6);
  assert.deepEqual(seen.toSorted(), ids.toSorted());
  assert.deepEqual(
    results.filter(({ error }) => error),
    [{ id: "7", error: "Error: it has ended" }],
  );
});

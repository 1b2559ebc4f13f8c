import assert from "node:assert/strict";
import { test } from "node:test";
import { answerWords } from "./answer.ts";

const ANSWER = {
  execution_id: "x",
  name: "verdict",
  id: "1",
  accepted: true,
  duplicate: false,
  late: false,
  pending: false,
  awaited: ["payment"],
};

test("each answer to a signal has its own words", () => {
  assert.match(answerWords({ ...ANSWER, answer: "accepted" }).text, /accepted/);
  assert.match(answerWords({ ...ANSWER, answer: "accepted", pending: true }).text, /stored.*waits for: payment/);
  assert.equal(answerWords({ ...ANSWER, answer: "duplicate" }).tone, "bad");
  assert.match(answerWords({ ...ANSWER, answer: "late" }).text, /has ended/);
  assert.match(answerWords({ ...ANSWER, answer: "dropped", awaited: [] }).text, /waits for no signal/);
});

import assert from "node:assert/strict";
import { test } from "node:test";
import type { FormField } from "../api/types.gen.ts";
import { besideForm, payloadOf, textsOf } from "./inputs.ts";

const field = (path: string, change: Partial<FormField>): FormField => ({
  path,
  type: "string",
  default: null,
  help: "",
  template: false,
  required: false,
  enum: null,
  ...change,
});

const FORM = [
  field("limit", { type: "number", default: 500 }),
  field("order.customer", { default: "ada" }),
  field("region", { default: "{{ now() }}", template: true }),
  field("size", { enum: [1, "large"], default: 1 }),
];

test("the payload has only what differs from the defaults", () => {
  const texts = { ...textsOf(FORM, {}), limit: "20", size: "large" };
  assert.deepEqual(payloadOf(FORM, texts, {}), { payload: { limit: 20, size: "large" }, errors: {} });
});

test("a text that is no value of the type and a missing input are errors", () => {
  const form = [...FORM, field("day", { required: true })];
  const { errors } = payloadOf(form, { ...textsOf(form, {}), limit: "many" }, {});
  assert.deepEqual(errors, { limit: "Enter a number.", day: "This input is required." });
});

test("values of another run fill the form, and values it does not show are kept and named", () => {
  const payload = { order: { customer: "bob", nte: 1 }, limit: 500 };
  assert.equal(textsOf(FORM, payload)["order.customer"], "bob");
  const { others, unknown } = besideForm(FORM, payload);
  assert.deepEqual(unknown, ["order.nte"]);
  assert.deepEqual(payloadOf(FORM, textsOf(FORM, payload), others).payload, { order: { nte: 1, customer: "bob" } });
});

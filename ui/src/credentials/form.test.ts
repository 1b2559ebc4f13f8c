import assert from "node:assert/strict";
import { test } from "node:test";
import { credentialPath, fieldsOf, isSecret, missing, requestOf } from "./form.ts";

test("a kind has the fields of its forms, secrets are hidden", () => {
  assert.deepEqual(fieldsOf("basic"), ["username", "password"]);
  assert.equal(isSecret("password"), true);
  assert.equal(isSecret("username"), false);
});

test("one complete form is enough", () => {
  assert.equal(missing("api_key", { value: "x" }), "Required: value, header, or value, query.");
  assert.equal(missing("api_key", { value: "x", query: "key" }), null);
});

test("empty fields and fields of another kind are left out", () => {
  assert.deepEqual(requestOf("bearer", { token: "abc", password: "old" }, "shop/*, a", ""), {
    kind: "bearer",
    data: { token: "abc" },
    paths: ["shop/*", "a"],
    pools: [],
  });
  assert.equal(credentialPath("team/db 1"), "/credentials/team/db%201");
});

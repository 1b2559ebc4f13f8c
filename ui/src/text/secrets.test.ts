import assert from "node:assert/strict";
import { test } from "node:test";
import { hasSecretName, withoutSecrets } from "./secrets.ts";

test("values under names of secrets are left out, at any depth", () => {
  const value = { texts: { "db.password": "x", limit: "7" }, others: { shop: { api_key: "x", id: 1 } }, list: [1] };
  assert.equal(withoutSecrets(value), '{"texts":{"limit":"7"},"others":{"shop":{"id":1}},"list":[1]}');
});

test("a text with the name of a secret is recognised", () => {
  assert.ok(hasSecretName('{"clientSecret": "x"}'));
  assert.ok(!hasSecretName('{"limit": 7}'));
});

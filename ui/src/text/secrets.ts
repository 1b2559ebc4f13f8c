/** Names that inputs of playbooks have when their values are secrets. Pure. */

const SECRET = /passw|passphrase|secret|token|credential|api.?key|private.?key/i;

/** Whether a name is that of a secret, or a text has such a name in it. */
export function hasSecretName(text: string): boolean {
  return SECRET.test(text);
}

/** JSON of a value without the values under names of secrets. */
export function withoutSecrets(value: unknown): string {
  return JSON.stringify(value, (name, inner) => (hasSecretName(name) ? undefined : inner));
}

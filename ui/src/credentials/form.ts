/** The form of a credential: which fields its kind has, and the request they become. Pure. */

import { CREDENTIAL_KINDS, SECRET_FIELDS } from "../api/credentials.gen.ts";
import type { CredentialRequest } from "../api/types.gen.ts";

export type Kind = keyof typeof CREDENTIAL_KINDS;
export const KINDS = Object.keys(CREDENTIAL_KINDS) as Kind[];

/** The fields of a kind, those of its first form first. */
export function fieldsOf(kind: Kind): string[] {
  const { forms, more } = CREDENTIAL_KINDS[kind];
  return [...new Set([...forms.flat(), ...more])];
}

export function isSecret(field: string): boolean {
  return (SECRET_FIELDS as readonly string[]).includes(field);
}

/** The missing fields; null if one of the forms of the kind is complete. */
export function missing(kind: Kind, data: Record<string, string>): string | null {
  const forms: readonly (readonly string[])[] = CREDENTIAL_KINDS[kind].forms;
  if (forms.some((form) => form.every((field) => data[field]))) return null;
  return `Required: ${forms.map((form) => form.join(", ")).join(", or ")}.`;
}

export function requestOf(kind: Kind, data: Record<string, string>, paths: string, pools: string): CredentialRequest {
  const names = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  const fields = Object.fromEntries(
    Object.entries(data).filter(([field, value]) => value && fieldsOf(kind).includes(field)),
  );
  return { kind, data: fields, paths: names(paths), pools: names(pools) };
}

export function credentialPath(name: string): string {
  return `/credentials/${name.split("/").map(encodeURIComponent).join("/")}`;
}

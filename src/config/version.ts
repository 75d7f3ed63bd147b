/** The version of a configuration: a hash of everything except options that may differ between nodes. */
import { createHash, scryptSync } from "node:crypto";
import { ownToNode, withOption } from "./reach.js";
import type { Config } from "./schema.js";

/** Makes guessing a secret from a version expensive. */
const SCRYPT = { N: 1024, r: 8, p: 1 };
const known = new WeakMap<Config, string>();

export function configVersion(config: Config): string {
  const before = known.get(config);
  if (before !== undefined) return before;
  let shared = config;
  for (const option of ownToNode) shared = withOption(shared, option, "");
  const secrets = sortedJson([shared.control.plane_token, shared.identity.api_keys]);
  // Data planes compute the version without the admin token, which they must not have.
  shared = withOption(shared, "control.admin_token", "");
  shared = withOption(shared, "control.plane_token", "");
  // A new token of one plane must not outdate the rendered configurations of the others.
  shared = withOption(shared, "control.planes", "");
  shared = withOption(shared, "control.operators", "");
  shared = withOption(shared, "control.viewers", "");
  shared = withOption(shared, "identity.api_keys", "");
  const version = createHash("sha256")
    .update(sortedJson(shared))
    .update(scryptSync(secrets, "tollgate", 32, SCRYPT))
    .digest("hex")
    .slice(0, 12);
  known.set(config, version);
  return version;
}

/** Gives `derived` the version of `config`, from which it was made without changing a limit. */
export function keepVersion(config: Config, derived: Config): Config {
  known.set(derived, configVersion(config));
  return derived;
}

/** Independent of the order of options. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner !== "object" || inner === null || Array.isArray(inner)) return inner;
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}

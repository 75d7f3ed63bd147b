/** The account that pays for a request, and the user names that are known to be valid. */
import { OK } from "../../core/codes.js";
import { type IdentityClaims, type IdentityRules, identify } from "../../core/identity.js";
import { type Cache, keep, newCache } from "./cache.js";
import { countNobody } from "./counts.js";

const users: Cache<true> = newCache();

export function isKnownUser(name: string): boolean {
  return users.values[name] !== undefined;
}

interface Configured<A> {
  options: { identity: { rules: IdentityRules } };
  apps: { [id: string]: A | undefined };
}

/** Of the current call: LuaJIT does not compile functions that create functions. */
const configured: { apps: { [id: string]: unknown } } = { apps: {} };

function isConfigured(this: void, id: string): boolean {
  return configured.apps[id] !== undefined;
}

/** The code of the refusal if the claims name no app. */
export function identifiedApp<A>({ options, apps }: Configured<A>, claims: IdentityClaims): A | string {
  configured.apps = apps;
  const { code, app, user } = identify(claims, options.identity.rules, isConfigured);
  if (code !== OK) {
    countNobody(code);
    return code;
  }
  if (!isKnownUser(user)) keep(users, user, true);
  return apps[app]!;
}

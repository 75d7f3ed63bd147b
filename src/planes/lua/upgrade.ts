/** Upgrade requests, as both Lua planes read them. */
import { luaString } from "./library.js";

/** `protocol` in lower case. A version, as in `name/1`, need not be listed. */
export function isListed(protocol: string, listed: string[]): boolean {
  const name = luaString.match(protocol, "^[^/]*") ?? "";
  for (const one of listed) if (one === protocol || one === name) return true;
  return false;
}

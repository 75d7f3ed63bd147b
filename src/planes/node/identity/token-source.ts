/** The verifier of tokens across changes of the configuration: keys are read again only if their source changes. */
import { isDeepStrictEqual } from "node:util";
import type { TokenOptions } from "../../../config/options/limiter.js";
import type { Log } from "../../../shared/log.js";
import { createTokenKeys, type TokenKeys } from "./token-keys.js";
import { createTokenVerifier, type TokenVerifier } from "./tokens.js";

export function createTokenSource(log: Log) {
  let options: TokenOptions | undefined;
  let keys: TokenKeys | undefined;
  let verifier: TokenVerifier | undefined;

  const sourceOf = (one: TokenOptions | undefined) => one && [one.keys, one.refreshMs];

  return {
    /** Applies options; undefined: tokens are not read. */
    follow(next: TokenOptions | undefined): TokenVerifier | undefined {
      if (isDeepStrictEqual(next, options)) return verifier;
      if (!isDeepStrictEqual(sourceOf(next), sourceOf(options))) {
        keys?.close();
        keys = next && createTokenKeys({ ...next, log });
      }
      options = next;
      verifier = next && createTokenVerifier(next, keys!);
      return verifier;
    },
    close: () => keys?.close(),
  };
}

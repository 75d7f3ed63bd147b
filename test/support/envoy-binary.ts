/** Marks tests that need Envoy. Without it they are skipped with a message, and .ci/run fails. */
import { describe } from "vitest";
import { NEEDS_ENVOY } from "../../build/test-summary.js";
import { findEnvoy } from "./find-envoy.js";

export { envoyBinary, findEnvoy } from "./find-envoy.js";

/** Replaces `describe` for tests that run a real Envoy. */
export function describeEnvoy(name: string, body: () => void): void {
  if (findEnvoy() !== undefined) {
    describe(name, body);
    return;
  }
  console.error(`\n*** THERE IS NO ENVOY: "${name}" is skipped. Run build/ensure-envoy.sh, or set TOLLGATE_ENVOY.\n`);
  describe.skip(`${name} ${NEEDS_ENVOY}`, body);
}

/** How a test says that it needs an Envoy: without one such tests are skipped, loudly, and .ci/run does not forgive that. */
import { describe } from "vitest";
import { NEEDS_ENVOY } from "../../build/needs-envoy.js";
import { findEnvoy } from "./find-envoy.js";

export { envoyBinary, findEnvoy } from "./find-envoy.js";

/** In place of `describe` for tests that run a real Envoy. */
export function describeEnvoy(name: string, body: () => void): void {
  if (findEnvoy() !== undefined) {
    describe(name, body);
    return;
  }
  console.error(`\n*** THERE IS NO ENVOY: "${name}" is skipped. Run build/ensure-envoy.sh, or set TOLLGATE_ENVOY.\n`);
  describe.skip(`${name} ${NEEDS_ENVOY}`, body);
}

/** Each supported Envoy with the dynamic module charges bodies without a declared length and WebSockets while they pass. */
import { describe } from "vitest";
import { meteringScenarios } from "../../../scenarios/metering.js";
import { meteringSocketScenarios } from "../../../scenarios/metering-sockets.js";
import { describeEnvoy } from "../../../support/envoy-binary.js";
import { supportedEnvoys } from "../../../support/find-envoy.js";
import { startMeteredEnvoy } from "../../../support/metered-envoy.js";
import type { MeteringPlane } from "../../../support/metered-transfers.js";

describeEnvoy("with the dynamic module,", () => {
  describe.each(supportedEnvoys())("Envoy $version", ({ binary }) => {
    const plane: MeteringPlane = {
      start: (options) => startMeteredEnvoy({ ...options, binary }),
      // Envoy resets the stream, so there is no close frame.
      cutSocket: { code: 1006, reason: "" },
      missesResets: true,
    };
    meteringScenarios(plane);
    meteringSocketScenarios(plane);
  });
});

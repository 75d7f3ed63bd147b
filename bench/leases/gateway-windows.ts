/** The worst window of three gateway processes on one Redis: a steady load, then a flood. */
import { sendLoad } from "../../test/support/http-load.js";
import { startThreeGateways } from "../../test/support/three-gateways.js";
import { STEADY } from "./library-nodes.js";
import { type Limit, worstWindow } from "./worst-window.js";

/** Less than for the library: clients and gateways share the cores. */
const FLOOD = { load: 3, seconds: 2 };

export async function gatewayWindows(limits: Limit[]): Promise<number[]> {
  const endings: (() => unknown)[] = [];
  try {
    // Without a cost for bytes, a request costs one token.
    const profile = "profile: { based_on: iops, bandwidth: 0 }";
    const apps = limits.map(({ rate, burst }, i) => `app-${i}: { guaranteed: ${rate}, burst: ${burst}, ${profile} }`);
    const { gateways } = await startThreeGateways(endings, apps.join(", "));
    const worst: number[] = [];
    for (const [i, limit] of limits.entries()) {
      const send = async (load: number, seconds: number) => {
        const perGateway = (limit.rate * load) / gateways.length;
        return (await Promise.all(gateways.map(({ url }) => sendLoad(url, `app-${i}`, perGateway, seconds)))).flat();
      };
      const answers = [...(await send(STEADY.load, STEADY.seconds)), ...(await send(FLOOD.load, FLOOD.seconds))];
      const failed = answers.filter(({ status }) => status !== 200 && status !== 429);
      if (failed.length > answers.length / 100) {
        throw new Error(`${failed.length} of ${answers.length} failed: ${failed[0]!.status} ${failed[0]!.error}`);
      }
      const admitted = answers.filter(({ status }) => status === 200);
      worst.push(
        worstWindow(
          admitted.map(({ sentAt, at }) => ({ from: sentAt, to: at })),
          limit,
        ),
      );
    }
    return worst;
  } finally {
    for (const end of endings.reverse()) await end();
  }
}

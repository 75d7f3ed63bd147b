/** Floods of frames and connections on the listener for Envoy of a real service process, with budgets for memory and CPU time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AttackedService, type Peer, startAttackedService } from "../../support/attacked-service.js";
import { floods, sendFlood } from "../../support/http2-floods.js";
import { waitFor } from "../../support/wait-for.js";

/** An address outside of `control.allow`. */
const OUTSIDER = "127.0.0.2";

let service: AttackedService;
beforeAll(async () => {
  service = await startAttackedService({ control: 'allow: ["127.0.0.1/32"]' });
});
afterAll(() => service?.stop());

describe("a flood stays within its budget of memory and CPU time:", () => {
  it.for(floods)("%s", async ([, flood]) => {
    const cost = await service.costOf(async () =>
      sendFlood(await service.openPeer({ reads: flood.reads ?? true }), flood),
    );
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000);
  });

  it("the same floods from an address that is not allowed", async () => {
    const cost = await service.costOf(async () => {
      const sent: Peer[] = [];
      for (const [, flood] of floods) {
        sent.push(...(await sendFlood(await service.openPeer({ from: OUTSIDER, reads: flood.reads ?? true }), flood)));
      }
      return sent;
    });
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000 * floods.length);
  });

  it("2,000 idle connections from an address that is not allowed, all closed within seconds", async () => {
    const peers: Peer[] = [];
    const open = () => peers.filter((peer) => !peer.isClosed()).length;
    const cost = await service.costOf(async () => {
      for (let i = 0; i < 2_000; i += 100) {
        peers.push(...(await Promise.all(Array.from({ length: 100 }, () => service.openPeer({ from: OUTSIDER })))));
      }
      await waitFor("all of them to be closed", () => open() === 0);
      return peers;
    });
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(4_000);
  });
});

/** Attacks over HTTP/2 on the gateway of a real service process, with budgets for memory and CPU time. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type AttackedService, startAttackedService } from "../../../support/attacked-service.js";
import { createTestAuthority } from "../../../support/certificates.js";
import { floods, sendFlood, start } from "../../../support/http2-floods.js";
import { END_STREAM, headersFrames, prefaceWith, windowUpdate } from "../../../support/http2-frames.js";
import { getHead } from "../../../support/http2-heads.js";
import { waitFor } from "../../../support/wait-for.js";

const authority = createTestAuthority();
let service: AttackedService;
beforeAll(async () => {
  const yaml =
    "apps: { default: { guaranteed: 1000000, burst: 1000000 } }\nrequest_limits: { requests_per_client: 200 }";
  service = await startAttackedService({ authority, yaml });
});
afterAll(async () => {
  await service?.stop();
  authority.remove();
});

describe("an attack stays within its budget of memory and CPU time:", () => {
  it.for(floods)("%s", async ([, flood]) => {
    const cost = await service.costOf(async () =>
      sendFlood(await service.openPeer({ reads: flood.reads ?? true }), flood),
    );
    expect(cost.memoryMb).toBeLessThan(100);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });

  it("190 large responses with closed windows, and window updates that open none of them", async () => {
    const ids = Array.from({ length: 190 }, (_, i) => 2 * i + 1);
    const requests = ids.map((id) => headersFrames(id, getHead("/?bytes=10000000"), END_STREAM));
    const before = service.backend.requests();
    const cost = await service.costOf(async () => {
      const peer = await service.openPeer();
      await peer.write(Buffer.concat([prefaceWith({ 4: 0 }), start.subarray(-9), ...requests]));
      await waitFor("all requests to reach the backend", () => service.backend.requests() >= before + ids.length);
      const updates = Buffer.concat(Array<Buffer>(4_600).fill(windowUpdate(0, 1)));
      await peer.write(updates);
      return [peer];
    });
    expect(cost.memoryMb).toBeLessThan(150);
    expect(cost.cpuMs).toBeLessThan(6_000);
  });
});

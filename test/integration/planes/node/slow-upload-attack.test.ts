/** 520 slow uploads, more than the gateway has connections to its upstream, with the default limits of a real process. */
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type AttackedService, startAttackedService } from "../../../support/attacked-service.js";
import { type Backend, startBackend } from "../../../support/http-backend.js";
import { statusOf } from "../../../support/http-client.js";
import { waitFor } from "../../../support/wait-for.js";

let service: AttackedService;
let backend: Backend;
beforeAll(async () => {
  backend = await startBackend((request, response) => void request.resume().on("end", () => response.end("done")));
  // The clients are no trusted hops. Of the limits only the period is shorter: ten seconds by default.
  const yaml = "identity: { trusted_hops: [] }\ntimeouts: { body_rate_ms: 1000 }\n";
  service = await startAttackedService({ target: backend.target, yaml });
});
afterAll(async () => {
  await service?.stop();
  await backend?.stop();
});

it("520 chunked uploads of one byte at a time are refused or aborted, within budgets of memory and CPU time", async () => {
  const replies = new Map<Socket, string>();
  const port = Number(new URL(service.gateway.url).port);
  const cost = await service.costOf(async () => {
    const sockets = Array.from({ length: 520 }, () => connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2" }));
    for (const socket of sockets) {
      socket.on("error", () => {});
      socket.on("data", (data) => replies.set(socket, (replies.get(socket) ?? "") + data.toString()));
      socket.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    }
    const isRefused = (status: number) => [...replies.values()].filter((reply) => statusOf(reply) === status).length;
    const refusals = () => isRefused(408) + isRefused(429);
    // 256 of one address may run at a time. On a busy machine the first ones are aborted before there are as many.
    await waitFor("the first refusals", () => refusals() > 0);
    // Another client is served while the others upload, and when they were aborted.
    expect((await fetch(`${service.gateway.url}/`)).status).toBe(200);
    await waitFor("the end of the uploads", () => refusals() === 520);
    expect(isRefused(408)).toBeGreaterThanOrEqual(256);
    return sockets.map((socket) => ({ socket }));
  });
  expect(cost.memoryMb).toBeLessThan(100);
  expect(cost.cpuMs).toBeLessThan(6_000);
});

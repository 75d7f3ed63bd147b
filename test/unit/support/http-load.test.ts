import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { MAX_PENDING, startHttpLoad } from "../../support/http-load.js";
import { waitFor } from "../../support/wait-for.js";

it("a load on a server that does not answer has a bounded number of sockets and pending requests", async () => {
  let sockets = 0;
  let answering = false;
  const waiting: (() => void)[] = [];
  const server = createServer((_, response) => {
    if (answering) response.end();
    else waiting.push(() => response.end());
  });
  server.on("connection", () => sockets++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const startedAt = performance.now();
  const load = startHttpLoad(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, "any", 20_000);
  const due = () => ((performance.now() - startedAt) / 1_000) * 20_000;
  await waitFor("ten times as many requests to be due", () => due() > 10 * MAX_PENDING && waiting.length > 0);
  answering = true;
  const stopping = load.stop();
  for (const answer of waiting) answer();
  const answers = await stopping;
  await new Promise((resolve) => server.close(resolve));
  expect(answers).toHaveLength(MAX_PENDING);
  expect(sockets).toBeLessThanOrEqual(64);
});

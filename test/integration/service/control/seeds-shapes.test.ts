/** The endpoints of the seeds reply with the described fields and types. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { type ControlServer, startControl } from "../../../support/control-server.js";
import { nodeReport } from "../../../support/node-reports.js";
import { differences, seedExamples } from "../../../support/seed-examples.js";

let control: ControlServer;
beforeEach(async () => {
  control = await startControl(createEmbeddedStore(), { reports: [nodeReport()] });
});
afterEach(() => control.close());

describe("as in the seeds", () => {
  it.each(seedExamples)("$call", async ({ call, body, reply }) => {
    const [method = "", path = ""] = call.split(" ");
    const response = await control.call(method, path, body);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    const actual = (await response.json()) as Record<string, unknown>;
    expect(differences(actual, reply)).toEqual([]);
    expect(actual.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  });

  it("GET /metrics has the Prometheus format", async () => {
    const response = await fetch(`${control.url}/metrics`);
    expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/plain; version=0.0.4"]);
    expect(await response.text()).toBe("up 1\n");
  });

  it("GET /metrics is 404 when metrics are disabled", async () => {
    const off = await startControl(createEmbeddedStore(), { metrics: async () => undefined });
    const response = await fetch(`${off.url}/metrics`);
    expect([response.status, await response.json()]).toEqual([
      404,
      { error: "not_found", reason: "metrics_disabled", detail: "metrics.enabled is false" },
    ]);
    await off.close();
  });

  it("the comparison finds a missing field and one of another type", () => {
    expect(differences({ a: 1 }, { a: "text", b: 2 })).toEqual([
      "reply.a: number instead of string",
      "reply.b is missing",
    ]);
  });
});

/** docs/API.md lists every endpoint, and its curl commands work. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { createEmbeddedStore } from "../../../../src/store/embedded/embedded-store.js";
import { ADMIN_TOKEN, startControl } from "../../../support/control-server.js";
import { nodeReport } from "../../../support/node-reports.js";

const page = readFileSync(new URL("../../../../docs/API.md", import.meta.url), "utf8");

it("lists every endpoint", async () => {
  const control = await startControl(createEmbeddedStore());
  const { paths } = (await (await fetch(`${control.url}/openapi.json`)).json()) as { paths: Record<string, object> };
  await control.close();
  const endpoints = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((one) => [one, path]));
  expect(endpoints.length).toBeGreaterThan(20);
  for (const [method = "", path = ""] of endpoints) {
    const short = path.replace("/admin/ratelimit", "");
    const own = page.split("\n").filter((line) => line.includes(`${short}\``) || line.includes(`${short}?`));
    expect(own.length, path).toBeGreaterThan(0);
    if (path !== short)
      expect(
        own.some((line) => line.includes(method.toUpperCase())),
        `${method} ${path}`,
      ).toBe(true);
  }
});

it("contains only curl commands that work", async () => {
  const control = await startControl(createEmbeddedStore(), {
    config: { apps: { "video-service": { guaranteed: 100 } } },
    reports: [nodeReport()],
  });
  const [, script = ""] = /```sh\n(.*?)```/s.exec(page) ?? [];
  const checked = `set -e\ncurl() { command curl --fail-with-body "$@"; }\n${script}`;
  const env = { ...process.env, URL: control.url, TOLLGATE_ADMIN_TOKEN: ADMIN_TOKEN };
  const { stdout } = await promisify(execFile)("bash", ["-c", checked], { env });
  const answers = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(answers).toHaveLength(script.split("\n").filter((line) => line.startsWith("curl ")).length);
  expect(answers).toMatchObject([
    { ready: true },
    { node_id: "gw" },
    { app_id: "video-service" },
    { status: "emergency_activated", operator: "alice" },
    { status: "degradation_level_set" },
    { pinned_level: null },
    { status: "reconciled" },
    { status: expect.stringMatching(/^(reloaded|unchanged)$/) },
    { revision: 1, config: { apps: { "video-service": { burst: 5000 } } } },
  ]);
  await control.close();
});

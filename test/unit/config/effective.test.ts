/** Effective options with their sources, and the environment of a comparison. */
import { expect, it } from "vitest";
import { comparisonEnvironment, effectiveOptions } from "../../../src/config/live/effective.js";
import { readConfig } from "../../../src/config/load.js";

function optionsOf(yaml: string, layer: Record<string, unknown> = {}, env: Record<string, string> = {}) {
  const { config, problems } = readConfig(yaml, env, layer);
  if (config === undefined) throw new Error(JSON.stringify(problems));
  const list = effectiveOptions({ config, yaml, layer, env, commandLine: ["workers"] });
  return new Map(list.map((one) => [one.path, one]));
}

it("names the layer of every value", () => {
  const yaml = `
listen: 127.0.0.1:8081
workers: 3
apps: { video: { guaranteed: 10, burst: 20, profile: iops } }
upstreams: { web: { targets: ["127.0.0.1:1"] } }
routes: [{ path: /, upstream: web }]
`;
  const env = { TOLLGATE_ADMIN_TOKEN: "0123456789abcdef" };
  const options = optionsOf(yaml, { apps: { video: { burst: 30 } } }, env);
  const sources = Object.fromEntries([...options].map(([path, { source, value }]) => [path, [value, source]]));
  expect(sources).toMatchObject({
    listen: ["127.0.0.1:8081", "file"],
    workers: ["3", "command line"],
    "apps.video.guaranteed": ["10", "file"],
    "apps.video.burst": ["30", "store"],
    "apps.video.priority": ["2", "default"],
    "routes[0].path": ["/", "file"],
    "cluster.capacity": [expect.anything(), "default"],
  });
});

it("hides secrets, whether they are set or not", () => {
  const named =
    "operators: { ann: a-secret-of-ann-1234 }, viewers: { bea: [a-secret-of-bea-1234] }, planes: { edge: a-secret-of-edge-12 }";
  const yaml = `control: { admin_token: "a-secret-token-1234", ${named} }
store: redis://:pass@localhost:6379
otel: { authorization: Bearer a-secret-of-otel }
`;
  const text = JSON.stringify([...optionsOf(yaml).values()]);
  expect(text).not.toMatch(/a-secret|pass@/);
  expect(optionsOf(yaml).get("control.admin_token")?.value).toBe("(hidden)");
  expect(optionsOf(yaml).get("control.operators")?.value).toBe("(hidden)");
  expect(optionsOf(yaml).get("otel.authorization")?.value).toBe("(hidden)");
  expect(optionsOf(yaml).get("control.plane_token")?.value).toBe("not set");
  expect(optionsOf("").get("control.viewers")?.value).toBe("not set");
});

it("leaves out more than 200 apps, without parsing them", () => {
  const apps = Array.from({ length: 300 }, (_, i) => `  app-${i}: { guaranteed: 1 }`).join("\n");
  const options = optionsOf(`apps:\n${apps}\n\n  # the last one\nlisten: 127.0.0.1:9\n`);
  expect([...options.keys()].some((path) => path.startsWith("apps."))).toBe(false);
  expect(options.get("listen")?.source).toBe("file");
});

it("shows a pasted file only the variables of the active one, and no secrets", () => {
  const env = { WEB_PORT: "80", HOME: "/root", TOLLGATE_ADMIN_TOKEN: "real", DB_PASSWORD: "real", REDIS_HOST: "redis" };
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of configuration files
  expect(comparisonEnvironment("listen: 0.0.0.0:${WEB_PORT}\nx: ${DB_PASSWORD}", env)).toEqual({
    ...{ WEB_PORT: "80", REDIS_HOST: "redis" },
    ...{ TOLLGATE_ADMIN_TOKEN: expect.not.stringMatching("real"), DB_PASSWORD: expect.not.stringMatching("real") },
  });
});

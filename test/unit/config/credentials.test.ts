/** Which credentials a configuration accepts. The files in `bad/` have those that it rejects. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { publishedTokens } from "../../../src/config/credentials.js";
import { readConfig } from "../../../src/config/load.js";
import { accessOptions } from "../../../src/config/options/service.js";
import { describeProblem } from "../../../src/config/problem.js";
import { configVersion } from "../../../src/config/version.js";

const root = new URL("../../../", import.meta.url).pathname;

function read(yaml: string, env = {}) {
  const { config, problems } = readConfig(yaml, env);
  if (config === undefined) throw new Error(problems.map(describeProblem).join("\n"));
  return config;
}

describe("published tokens", () => {
  it("are all known: no page or example has another one", () => {
    const folders = ["docs", "examples", "examples/nginx", "examples/envoy-websockets", "."];
    const files = folders.flatMap((folder) =>
      readdirSync(join(root, folder), { withFileTypes: true })
        .filter((entry) => entry.isFile() && /\.(md|ya?ml|conf)$/.test(entry.name))
        .map((entry) => join(root, folder, entry.name)),
    );
    const found = files.flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/replace-this-token[A-Za-z0-9-]*/g)].map(([token]) => token),
    );
    expect(found.length).toBeGreaterThan(0);
    for (const token of found) expect(publishedTokens).toContain(token);
    // Every literal token begins like this, so that the search above finds it.
    for (const file of files.filter((one) => !one.endsWith("/docker-compose.yml"))) {
      const text = readFileSync(file, "utf8");
      const literal = /(?:admin_token|plane_token|_TOKEN)[:=] *"?(?!replace-this-token)([A-Za-z0-9-]{16,})/g;
      expect([file, ...[...text.matchAll(literal)].map(([, token]) => token)]).toEqual([file]);
    }
  });

  it("of the Compose file for a trial are used only behind loopback addresses", () => {
    const text = readFileSync(join(root, "docker-compose.yml"), "utf8");
    const published = [...text.matchAll(/ports: \[([^\]]+)\]/g)].flatMap(([, list = ""]) => list.split(", "));
    expect(published.length).toBeGreaterThan(5);
    for (const port of published) expect(port).toMatch(/^"127\.0\.0\.1:\d+:\d+"$/);
    expect(text.match(/^\s*(-\s*)?ports:(?! \[)/m)).toBeNull();
  });

  it("are accepted where only this machine can use them", () => {
    for (const listen of ["127.0.0.1:9145", "127.8.8.8:9145", "localhost:9145", '"[::1]:9145"']) {
      expect(read(`control: { listen: ${listen}, plane_token: ${publishedTokens[0]} }`).control.planes).toEqual({});
    }
  });
});

it("a plane or operator has one token, or two during a rotation; those of unset variables do not count", () => {
  const yaml = `control:
  operators: { alice: "\${ALICE}" }
  planes: { edge_1: ["\${NEW}", "\${OLD:-}"], edge-2: [0123456789abcdef-1, 0123456789abcdef-2] }`;
  const { operators, planes } = accessOptions(read(yaml, { ALICE: "0123456789abcdef-a", NEW: "0123456789abcdef-n" }));
  expect(operators).toEqual({ alice: ["0123456789abcdef-a"] });
  expect(planes).toEqual({ edge_1: ["0123456789abcdef-n"], "edge-2": ["0123456789abcdef-1", "0123456789abcdef-2"] });
});

it("a new token of one plane or operator does not change the version of the configuration", () => {
  const version = (control: string) => configVersion(read(`control: { ${control} }`));
  const before = version("planes: { edge-1: 0123456789abcdef-1 }");
  expect(version("planes: { edge-1: 0123456789abcdef-2 }, operators: { alice: 0123456789abcdef-3 }")).toBe(before);
  expect(version("planes: { edge-1: 0123456789abcdef-1 }, plane_token: 0123456789abcdef-4")).not.toBe(before);
});

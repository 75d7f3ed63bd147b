/** Rendering with addresses instead of DNS names, for planes that need the pods of a route when they start. */
import { describe, expect, it } from "vitest";
import { resolveUpstreams } from "../../../src/cli/render/resolve.js";
import { readConfig } from "../../../src/config/load.js";
import { configVersion } from "../../../src/config/version.js";

const config = readConfig(
  `
upstreams:
  pods: { dns: { name: ws.internal, port: 9000 } }
  more: { dns: { name: ws.internal, port: 9001 } }
  fixed: { targets: ["backend:80"] }
routes: [{ path: /, upstream: fixed }, { path: /ws/, upstream: pods, connections: {} }]
`,
  {},
).config!;

describe("upstreams with dns", () => {
  it("get their addresses as targets, each once and in order; others stay as they are", async () => {
    const { config: resolved, file } = await resolveUpstreams(config, async () => [
      "10.0.0.2",
      "fd00::1",
      "10.0.0.1",
      "10.0.0.2",
    ]);
    expect(resolved.upstreams.pods).toMatchObject({
      targets: ["10.0.0.1:9000", "10.0.0.2:9000", "[fd00::1]:9000"],
      dns: undefined,
    });
    expect(resolved.upstreams.more?.targets[0]).toBe("10.0.0.1:9001");
    expect(resolved.upstreams.fixed).toEqual(config.upstreams.fixed);
    expect(file).toEqual({ name: "addresses.txt", text: "ws.internal 10.0.0.1 10.0.0.2 fd00::1\n", secret: false });
  });

  it("do not change the version of the configuration, which services and planes compare", async () => {
    const resolutions = await Promise.all(
      ["10.0.0.1", "10.0.0.2"].map((address) => resolveUpstreams(config, async () => [address])),
    );
    const versions = resolutions.map((each) => configVersion(each.config));
    expect(versions).toEqual([configVersion(config), configVersion(config)]);
  });

  it.each([
    ["has no address", async () => []],
    ["cannot be resolved: ENOTFOUND", async () => Promise.reject(new Error("ENOTFOUND"))],
  ])("that %s are an error", async (reason, addressesOf) => {
    await expect(resolveUpstreams(config, addressesOf)).rejects.toThrow(
      `upstreams.pods.dns.name: ws.internal ${reason}`,
    );
  });
});

/** What `tollgate render envoy` writes for Istio and Envoy Gateway is valid for their resource definitions. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { fromRoot } from "../../build/paths.js";
import { command as renderCommand } from "../../src/cli/render.js";
import { describeWith } from "./support/needs.js";
import { pythonTool } from "./support/tools.js";

type Json = Record<string, unknown>;

const yaml = `
control: { plane_token: a-token-of-data-planes, listen: 0.0.0.0:9145 }
envoy: { listen: 0.0.0.0:9147 }
identity: { api_keys: { video: [a-key-of-sixteen-or-more] }, trusted_hops: [10.0.0.0/8] }
apps: { default: { guaranteed: 100 }, video: { guaranteed: 100 } }
request_limits: { body_bytes: 1000000 }
`;
const SERVICES = ["--service", "tollgate-control.tollgate:9145", "--envoy-service", "tollgate-control.tollgate:9147"];

/** An API server rejects unknown fields, which the schema only implies. Fields with any content say so. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== "object" || schema === null) return schema;
  const closed: Json = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, strict(value)]));
  const isOpen = "x-kubernetes-preserve-unknown-fields" in closed || "additionalProperties" in closed;
  const isObject = closed.type === "object" && closed.properties !== undefined;
  return isObject && !isOpen ? { ...closed, additionalProperties: false } : closed;
}

/** By kind, of the version that the resources use. */
function schemas(): Map<string, unknown> {
  const folder = fromRoot(".cache/deploy/crds");
  const [release = ""] = readdirSync(folder).sort().reverse();
  const found = new Map<string, unknown>();
  for (const name of readdirSync(join(folder, release))) {
    for (const document of parseAllDocuments(readFileSync(join(folder, release, name), "utf8"))) {
      const crd = document.toJS();
      for (const version of crd?.spec?.versions ?? []) {
        const { kind } = crd.spec.names;
        const schema = version.schema.openAPIV3Schema;
        // Every resource has these.
        const properties = { apiVersion: {}, kind: {}, metadata: {}, ...schema.properties };
        found.set(`${crd.spec.group}/${version.name} ${kind}`, strict({ ...schema, properties }));
      }
    }
  }
  return found;
}

describeWith(["tools"], "what is rendered for Istio and Envoy Gateway", () => {
  let dir: string;
  let known: Map<string, unknown>;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), "tollgate-mesh-"));
    known = schemas();
    writeFileSync(join(dir, "tollgate.yaml"), yaml);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  const render = (...args: string[]) =>
    renderCommand.run(["envoy", "--config", join(dir, "tollgate.yaml"), "--out", dir, ...SERVICES, ...args]);
  const resources = (file: string) =>
    parseAllDocuments(readFileSync(join(dir, file), "utf8")).map((each) => each.toJS());

  /** The findings about a resource of a known kind. */
  function findings(resource: { apiVersion: string; kind: string; metadata: unknown }): string {
    const schema = known.get(`${resource.apiVersion} ${resource.kind}`);
    if (schema === undefined) throw new Error(`${resource.apiVersion} ${resource.kind} is not defined`);
    const [schemaFile, file] = [join(dir, "schema.json"), join(dir, "resource.json")];
    writeFileSync(schemaFile, JSON.stringify(schema));
    writeFileSync(file, JSON.stringify(resource));
    const { status, output } = pythonTool("lint", "check-jsonschema", "--schemafile", schemaFile, file);
    return status === 0 ? "" : output;
  }

  it.each([
    ["istio", ["--istio"], "istio.yaml", ["EnvoyFilter"]],
    [
      "istio, for a Gateway with the module",
      ["--istio", "--mode", "module", "--gateway", "edge"],
      "istio.yaml",
      ["EnvoyFilter"],
    ],
    [
      "Envoy Gateway with the module",
      ["--envoy-gateway", "--gateway", "edge"],
      "envoy-gateway.yaml",
      ["EnvoyProxy", "EnvoyPatchPolicy", "EnvoyExtensionPolicy"],
    ],
    [
      "Envoy Gateway with the rate limit service",
      ["--envoy-gateway", "--gateway", "edge", "--mode", "rls", "--listener", "http", "--listener", "https"],
      "envoy-gateway.yaml",
      ["EnvoyProxy", "EnvoyPatchPolicy"],
    ],
  ])("is valid for the resource definitions: %s", (_what, args, file, kinds) => {
    render(...args);
    const written = resources(file);
    expect(written.map(({ kind }) => kind)).toEqual(kinds);
    for (const resource of written) expect(findings(resource)).toBe("");
    const secret = pythonTool("lint", "kubernetes-validate", "--strict", "-k", "1.36", join(dir, "secret.yaml"));
    expect(secret.status, secret.output).toBe(0);
  });

  it("would not be valid with a field that the definitions do not have", () => {
    render("--envoy-gateway", "--gateway", "edge");
    const [proxy] = resources("envoy-gateway.yaml");
    proxy.spec.dynamicModules[0].source.local.file = "/x";
    expect(findings(proxy)).toContain("file");
    render("--istio");
    const [filter] = resources("istio.yaml");
    filter.spec.configPatches[0].applyTo = "CLUSTERS";
    expect(findings(filter)).toContain("CLUSTERS");
  });

  it("refers to files where the pods mount the Secret, and contains no token outside of it", () => {
    render("--envoy-gateway", "--gateway", "edge", "--path", "/etc/limits");
    const text = readFileSync(join(dir, "envoy-gateway.yaml"), "utf8");
    expect(text).toContain('config: "/etc/limits/tollgate.lua"');
    expect(text).toContain('path: "/etc/limits/secret-token.yaml"');
    expect(text).not.toContain("a-token-of-data-planes");
    const [{ stringData }] = resources("secret.yaml");
    expect(Object.keys(stringData).sort()).toEqual(["secret-token.yaml", "tollgate.lua"]);
  });

  it.each([
    [["--envoy-gateway"], "--gateway is missing"],
    [["--envoy-gateway", "--gateway", "Edge"], "--gateway Edge: must be a name of Kubernetes"],
    [["--istio", "--listener", "http"], "--listener: an EnvoyFilter applies to all listeners"],
    [["--istio", "--admin", "127.0.0.1:1"], "--admin: with --istio, your own configuration has it"],
  ])("reports the problem: %s", (args, complaint) => {
    expect(() => render(...args)).toThrow(complaint);
  });
});

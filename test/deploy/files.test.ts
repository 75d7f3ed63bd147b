/** The deployment files, without running them: up to date, accepted by linters and schemas, and valid for Tollgate itself. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { parseAllDocuments } from "yaml";
import { compareFiles, deployFiles } from "../../build/deploy/files.js";
import { CHART, helmTemplate, packageVersion, substitute } from "../../build/deploy/values.js";
import { fromRoot } from "../../build/paths.js";
import { readConfig } from "../../src/config/load.js";
import { describeWith } from "./support/needs.js";
import { goTool, helm, pythonTool } from "./support/tools.js";

const read = (path: string) => readFileSync(fromRoot(path), "utf8");
const valueSets = {
  trial: [],
  production: [`${CHART}/values-production.yaml`],
  "external Redis": [`${CHART}/ci/external-redis-values.yaml`],
};

describe("placeholders", () => {
  it("are replaced by values, and an unknown one is an error", () => {
    expect(substitute("a: {{ b.c }} {{ d }}", { b: { c: "x" }, d: 2 }, "file")).toBe("a: x 2");
    expect(() => substitute("{{ no_such }}", {}, "file")).toThrow("file: no_such is not a text");
  });
});

describeWith(["tools"], "the derived files", () => {
  it("are up to date: otherwise run make deploy-files", () => {
    expect(compareFiles(deployFiles())).toEqual({ stale: [], extra: [] });
  });

  it("have the version of package.json", () => {
    expect(read(`${CHART}/Chart.yaml`)).toContain(`version: ${packageVersion()}\nappVersion: ${packageVersion()}\n`);
    expect(read("docker-compose.yml")).toContain(`image: tollgate:${packageVersion()}`);
  });
});

describeWith(["tools"], "the chart", () => {
  it.each(Object.entries(valueSets))("passes helm lint with the values for %s", (_, files) => {
    const { status, output } = helm("lint", "--strict", CHART, ...files.flatMap((file) => ["--values", file]));
    expect(status, output).toBe(0);
  });

  it.each(Object.entries(valueSets))(
    "writes a configuration that Tollgate accepts with the values for %s",
    (_, files) => {
      const documents = parseAllDocuments(helmTemplate("tollgate", files)).map((each) => each.toJS());
      const map = documents.find((each) => each?.kind === "ConfigMap" && each.data["tollgate.yaml"] !== undefined);
      const env = {
        TOLLGATE_PLANE_TOKEN: "p".repeat(20),
        TOLLGATE_ADMIN_TOKEN: "a".repeat(20),
        REDIS_PASSWORD: "secret",
      };
      const { config, problems } = readConfig(map.data["tollgate.yaml"], env);
      expect(problems).toEqual([]);
      expect(config?.routes[1]?.connections).toMatchObject({ max_per_pod: expect.any(Number) });
    },
  );

  it.each([
    ["envoy_replicas=-1", "envoy_replicas: Must be greater than or equal to 0"],
    ["max_connections_per_pod=two", "max_connections_per_pod: Invalid type. Expected: integer, given: string"],
    ["max_connection_per_pod=2", "Additional property max_connection_per_pod is not allowed"],
    ["environment=prod", 'environment must be one of the following: "dev", "staging", "production"'],
    ["redis.url=rediss://user:password@host", "redis.url: Does not match pattern"],
    ["redis.bundled=false", "redis.url: set the URL of a Redis, or redis.bundled"],
    ["secrets.create=false", "secrets.existing: name a secret with admin-token and plane-token"],
  ])("rejects %s and names the reason", (value, reason) => {
    const { status, output } = helm("template", "tollgate", CHART, "--set", value);
    expect({ status, output }).toEqual({ status: 1, output: expect.stringContaining(reason) });
  });

  it("gives the grace period time for the drain and timeouts.shutdown_ms", () => {
    const text = helmTemplate("tollgate", [], ["--set", "drain_seconds=7", "--set", "shutdown_ms=25500"]);
    const service = parseAllDocuments(text)
      .map((each) => each.toJS())
      .find((each) => each?.kind === "Deployment" && each.metadata.name === "tollgate");
    expect(service.spec.template.spec.terminationGracePeriodSeconds).toBe(7 + 26 + 5);
  });

  it("restarts pods when their configuration changes, and only then", () => {
    const checksums = (...options: string[]) =>
      parseAllDocuments(helmTemplate("tollgate", [], options))
        .map((each) => each.toJS())
        .filter((each) => each?.kind === "Deployment" && /^tollgate/.test(each.metadata.name))
        .map((each) => each.spec.template.metadata.annotations["checksum/config"]);
    const before = checksums();
    expect(before).toHaveLength(3);
    expect(checksums("--set", "service_replicas=5")).toEqual(before);
    const after = checksums("--set", "max_connections_per_pod=3");
    expect(after.filter((each, i) => each === before[i])).toEqual([]);
  });
});

describeWith(["tools"], "linters", () => {
  it.each(["1.34", "1.35", "1.36", "1.37"])("accept the manifests for Kubernetes %s", (version) => {
    const files = ["trial", "production", "examples"].flatMap((set) => {
      const folder = `deploy/kubernetes/${set}`;
      return readdirSync(fromRoot(folder)).map((name) => `${folder}/${name}`);
    });
    // Resources of the Prometheus operator are not in the schemas of Kubernetes.
    const known = files.filter((file) => !file.endsWith("/monitoring.yaml"));
    const { status, output } = pythonTool(
      "lint",
      "kubernetes-validate",
      "--strict",
      "--quiet",
      "-k",
      version,
      ...known,
    );
    expect(status, output).toBe(0);
  });

  it("accept the Dockerfiles", () => {
    const { status, output } = pythonTool(
      "lint",
      "hadolint",
      "deploy/docker/Dockerfile",
      "deploy/docker/Dockerfile.alpine",
    );
    expect(status, output).toBe(0);
  });

  it("accept the Compose files", () => {
    const files = ["docker-compose.yml", "docker-compose.prod.yml"];
    const { status, output } = pythonTool(
      "lint",
      "check-jsonschema",
      "--builtin-schema",
      "vendor.compose-spec",
      ...files,
    );
    expect(status, output).toBe(0);
  });
});

describeWith(["tools", "kube-score"], "kube-score", () => {
  it.each(Object.entries(valueSets))("accepts the values for %s", (_, files) => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-score-"));
    writeFileSync(join(folder, "all.yaml"), helmTemplate("tollgate", files));
    // Versions and digests do not change: with Always, a pod could not start while the registry is unavailable.
    const { status, output } = goTool("kube-score")(
      ...["score", "--ignore-test", "container-image-pull-policy", "--output-format", "ci", join(folder, "all.yaml")],
    );
    rmSync(folder, { recursive: true });
    expect(status, output).toBe(0);
    expect(output).not.toMatch(/^\[(WARNING|CRITICAL)/m);
  });
});

vi.setConfig({ testTimeout: 120_000 });

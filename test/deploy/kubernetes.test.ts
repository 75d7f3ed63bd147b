/** The chart and the manifests on a real API server with controllers and simulated nodes. No container is run here. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { CHART } from "../../build/deploy/values.js";
import { waitFor } from "../support/wait-for.js";
import { type Cluster, customResource, startCluster, startMetrics } from "./support/cluster.js";
import { describeWith } from "./support/needs.js";

interface Deployment {
  metadata: { name: string; generation: number };
  spec: { replicas: number; template: { metadata: { annotations: Record<string, string> } } };
  status: { availableReplicas?: number; updatedReplicas?: number; replicas?: number; observedGeneration: number };
}
type List<T> = { items: T[] };
type Pod = {
  metadata: { name: string; deletionTimestamp?: string };
  spec: { nodeName?: string };
  status: { phase: string };
};

const valueSets = {
  trial: [],
  production: ["--values", `${CHART}/values-production.yaml`],
  "external-redis": ["--values", `${CHART}/ci/external-redis-values.yaml`],
};

let cluster: Cluster;
let metrics: Awaited<ReturnType<typeof startMetrics>>;

/** A namespace that admits only pods of the restricted Pod Security standard, with the secrets that the value sets refer to. */
async function createNamespace(name: string): Promise<void> {
  const secret = (secretName: string, ...keys: string[]) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secretName, namespace: name },
    stringData: Object.fromEntries(keys.map((key) => [key, `${key}-of-the-test-in-kubernetes`])),
  });
  const labels = {
    "pod-security.kubernetes.io/enforce": "restricted",
    "pod-security.kubernetes.io/enforce-version": "latest",
  };
  await cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } });
  await cluster.apply(
    secret("tollgate-tokens", "admin-token", "plane-token"),
    secret("tollgate-redis", "password"),
    secret("redis-auth", "redis-password"),
    secret("redis-ca", "ca.crt"),
    secret("tollgate-control-tls", "tls.crt", "tls.key", "ca.crt"),
  );
}

async function install(namespace: string, ...options: string[]): Promise<void> {
  await createNamespace(namespace);
  await succeed("install", "tg", CHART, "--namespace", namespace, "--wait", "--timeout", "4m", ...options);
}

async function succeed(...args: string[]): Promise<string> {
  const { status, output } = await cluster.helm(...args);
  expect(status, output).toBe(0);
  return output;
}

const deployments = (namespace: string) =>
  cluster.json<List<Deployment>>("get", "deployments", "--namespace", namespace);
const deployment = (namespace: string, name: string) =>
  cluster.json<Deployment>("get", "deployment", name, "--namespace", namespace);
const pods = async (namespace: string, component: string) =>
  (
    await cluster.json<List<Pod>>(
      ...["get", "pods", "--namespace", namespace, "--selector", `app.kubernetes.io/component=${component}`],
    )
  ).items.filter(({ metadata, status }) => metadata.deletionTimestamp === undefined && status.phase === "Running");
const configuration = async (namespace: string) =>
  (await cluster.json<{ data: Record<string, string> }>("get", "configmap", "tg", "--namespace", namespace)).data[
    "tollgate.yaml"
  ];

/** Resources of the Prometheus operator. */
const monitoringResource = (kind: string) => customResource("monitoring.coreos.com", "v1", kind);

describeWith(["tools", "cluster"], "the chart on an API server", () => {
  beforeAll(async () => {
    cluster = await startCluster();
    metrics = await startMetrics(cluster, { cpuMillis: 100, memoryMi: 100 });
    await cluster.apply(...["ServiceMonitor", "PodMonitor", "PrometheusRule"].map(monitoringResource));
    await cluster.kubectl("wait", "crd", "--all", "--for=condition=Established");
  });
  afterAll(async () => {
    await metrics?.stop();
    await cluster?.stop();
  });

  it.each(Object.entries(valueSets))(
    "installs with the values for %s; restricted Pod Security admits its pods",
    async (name, values) => {
      await install(name, ...values);
      for (const { metadata, spec, status } of (await deployments(name)).items)
        expect([metadata.name, status.availableReplicas]).toEqual([metadata.name, spec.replicas]);
      const used = new Set((await pods(name, "service")).map(({ spec }) => spec.nodeName));
      expect(used.size, "nodes with a service").toBe(Math.min(3, (await pods(name, "service")).length));
    },
  );

  it("applies the plain manifests without a warning", async () => {
    await createNamespace("tollgate");
    for (const set of ["trial", "production"]) {
      const { status, output } = await cluster.kubectl(
        ...["apply", "--dry-run=server", "--server-side", "--filename", `deploy/kubernetes/${set}`],
      );
      expect(status, output).toBe(0);
      expect(output).not.toContain("Warning");
    }
  });

  it("upgrades without an unavailable pod, keeps generated secrets, and rolls back", async () => {
    const namespace = "trial";
    const tokens = () => cluster.json<{ data: unknown }>("get", "secret", "tg-tokens", "--namespace", namespace);
    const before = { tokens: (await tokens()).data, configuration: await configuration(namespace) };
    let fewest = Number.POSITIVE_INFINITY;
    let isUpgrading = true;
    const watched = (async () => {
      while (isUpgrading) fewest = Math.min(fewest, (await deployment(namespace, "tg")).status.availableReplicas ?? 0);
    })();
    const upgrade = ["upgrade", "tg", CHART, "--namespace", namespace, "--wait", "--timeout", "4m"];
    await succeed(...upgrade, "--set", "max_connections_per_pod=7").finally(() => (isUpgrading = false));
    await watched;
    expect(fewest).toBe(2);
    expect(await configuration(namespace)).toContain("max_per_pod: 7");
    expect((await tokens()).data).toEqual(before.tokens);

    await succeed("rollback", "tg", "1", "--namespace", namespace, "--wait", "--timeout", "4m");
    expect(await configuration(namespace)).toBe(before.configuration);
    expect((await tokens()).data).toEqual(before.tokens);
    for (const { spec, status } of (await deployments(namespace)).items) {
      expect(status).toMatchObject({ availableReplicas: spec.replicas, updatedReplicas: spec.replicas });
    }
  });

  it("keeps the old pods when new ones do not become ready, and --atomic restores the release", async () => {
    const namespace = "trial";
    const before = (await pods(namespace, "service")).map(({ metadata }) => metadata.name).sort();
    const { status, output } = await cluster.helm(
      ...["upgrade", "tg", CHART, "--namespace", namespace, "--atomic", "--timeout", "15s"],
      ...["--set", "node_selector.no-such=node", "--set", "max_connections_per_pod=9"],
    );
    expect({ status, output }).toEqual({ status: 1, output: expect.stringContaining("rolled back") });
    expect((await pods(namespace, "service")).map(({ metadata }) => metadata.name).sort()).toEqual(before);
    expect(await configuration(namespace)).toContain("max_per_pod: 2");
  });

  it("rejects invalid values before anything is created", async () => {
    const { status, output } = await cluster.helm(
      ...["install", "tg", CHART, "--namespace", "invalid", "--create-namespace", "--set", "envoy_replicas=-1"],
    );
    expect({ status, output }).toEqual({
      status: 1,
      output: expect.stringContaining("envoy_replicas: Must be greater than or equal to 0"),
    });
    expect((await cluster.kubectl("get", "namespace", "invalid")).output).toContain("NotFound");
  });

  it("lets one pod of a component be evicted at a time", async () => {
    const namespace = "external-redis";
    await cluster.kubectl("cordon", "node-1", "node-2", "node-3");
    const [first, second] = await pods(namespace, "envoy");
    expect((await evict(namespace, first!.metadata.name)).status).toBe(0);
    const refused = await evict(namespace, second!.metadata.name);
    expect({ ...refused }).toEqual({
      status: 1,
      output: expect.stringContaining("would violate the pod's disruption budget"),
    });
    await cluster.kubectl("uncordon", "node-1", "node-2", "node-3");
    await waitFor(
      "a replacement",
      async () => (await deployment(namespace, "tg-envoy")).status.availableReplicas === 2,
    );
    await waitFor("room in the budget", async () => (await evict(namespace, second!.metadata.name)).status === 0);
  });

  it("scales out with the CPU, at most to the maximum, and does not scale in at once", async () => {
    const namespace = "production";
    const replicas = async () => (await deployment(namespace, "tg")).spec.replicas;
    const scalerReports = (reason: string) =>
      waitFor(reason, async () => {
        const { status } = await cluster.json<{ status: { conditions: { reason: string }[] } }>(
          ...["get", "hpa", "tg", "--namespace", namespace],
        );
        return status.conditions.some((condition) => condition.reason === reason);
      });
    await succeed(
      "upgrade",
      "tg",
      CHART,
      "--namespace",
      namespace,
      "--reuse-values",
      "--set",
      "autoscaling.max_replicas=5",
    );
    expect(await replicas()).toBe(3);
    // 500m are requested. This is 140 % where 70 % are wanted: twice as many pods, if the maximum allowed it.
    metrics.usage.cpuMillis = 700;
    await waitFor("more pods", async () => (await replicas()) === 5);
    await scalerReports("TooManyReplicas");
    metrics.usage.cpuMillis = 1;
    await scalerReports("ScaleDownStabilized");
    expect(await replicas()).toBe(5);
  });

  it("leaves only the generated tokens when it is uninstalled, because planes elsewhere may use them", async () => {
    await succeed("uninstall", "tg", "--namespace", "trial", "--wait");
    const kinds = "deployments,services,configmaps,secrets,networkpolicies,pdb,hpa,serviceaccounts";
    const { output } = await cluster.kubectl("get", kinds, "--namespace", "trial", "--output", "name");
    expect(output.split("\n").filter((line) => /\/tg/.test(line))).toEqual(["secret/tg-tokens"]);
  });
});

async function evict(namespace: string, name: string) {
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace } };
  return cluster.create(`/api/v1/namespaces/${namespace}/pods/${name}/eviction`, eviction);
}

/**
 * A Kubernetes cluster for tests: etcd, API server, controllers and scheduler, which are real, and nodes that are simulated by kwok.
 * Pods are never run; they become ready when they have been scheduled. `metrics` replaces the metrics server.
 */
import { execFile } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { fromRoot } from "../../../build/paths.js";
import { createTestAuthority } from "../../support/certificates.js";
import { freePort } from "../../support/ports.js";
import { type ServerProcess, startProcess } from "../../support/processes.js";
import { waitFor } from "../../support/wait-for.js";

const run = promisify(execFile);
const bin = (name: string) => fromRoot(`.cache/deploy/bin/${name}`);

export type Cluster = Awaited<ReturnType<typeof startCluster>>;

export interface Outcome {
  status: number;
  output: string;
}

export async function startCluster() {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-cluster-"));
  const processes: ServerProcess[] = [];
  const kubeconfig = join(folder, "kubeconfig");
  const start = (path: string, args: string[]) => {
    const started = startProcess(path, args, folder);
    processes.push(started);
    return started;
  };

  await startApiServer(folder, kubeconfig, start);
  const kubectl = (...args: string[]) => call(bin("kubectl"), ["--kubeconfig", kubeconfig, ...args]);
  const helm = (...args: string[]) =>
    call(fromRoot(".cache/deploy/helm/bin/helm"), ["--kubeconfig", kubeconfig, ...args], { HELM_CACHE_HOME: folder });
  const json = async <T = Record<string, unknown>>(...args: string[]): Promise<T> => {
    const { status, output } = await kubectl(...args, "--output", "json");
    if (status !== 0) throw new Error(output);
    return JSON.parse(output) as T;
  };
  const written = (object: unknown): string => {
    const file = join(folder, `${randomBytes(6).toString("hex")}.json`);
    writeFileSync(file, JSON.stringify(object));
    return file;
  };
  const apply = async (...objects: unknown[]): Promise<void> => {
    const list = { apiVersion: "v1", kind: "List", items: objects };
    const { status, output } = await kubectl("apply", "--server-side", "--filename", written(list));
    if (status !== 0) throw new Error(output);
  };
  /** Posts an object to a path of the API. */
  const create = (path: string, object: unknown): Promise<Outcome> =>
    kubectl("create", "--raw", path, "--filename", written(object));

  startControllers(folder, kubeconfig, start);
  await apply(...["a", "b", "c"].map((zone, i) => node(`node-${i + 1}`, zone)));
  await waitFor(
    "the nodes",
    async () => (await kubectl("wait", "node", "--all", "--for=condition=Ready")).status === 0,
  );

  return {
    kubeconfig,
    kubectl,
    helm,
    json,
    apply,
    create,
    async stop(): Promise<void> {
      for (const each of processes.reverse()) await each.end("SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function call(path: string, args: string[], env: Record<string, string> = {}): Promise<Outcome> {
  try {
    const { stdout, stderr } = await run(path, args, {
      cwd: fromRoot("."),
      env: { ...process.env, ...env },
      maxBuffer: 64 * 1024 * 1024,
    });
    return { status: 0, output: args.includes("json") ? stdout : stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { status: code, output: `${stdout}${stderr}` };
  }
}

type Start = (path: string, args: string[]) => ServerProcess;

async function startApiServer(folder: string, kubeconfig: string, start: Start): Promise<void> {
  const [client, peer, secure] = [await freePort(), await freePort(), await freePort()];
  start("etcd", [
    ...["--data-dir", join(folder, "etcd"), "--unsafe-no-fsync", "--log-level", "error"],
    ...["--listen-client-urls", `http://127.0.0.1:${client}`, "--advertise-client-urls", `http://127.0.0.1:${client}`],
    ...["--listen-peer-urls", `http://127.0.0.1:${peer}`, "--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`],
    ...["--initial-cluster", `default=http://127.0.0.1:${peer}`],
  ]);
  const { privateKey, publicKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  writeFileSync(join(folder, "accounts.key"), privateKey);
  writeFileSync(join(folder, "accounts.pub"), publicKey);
  const token = randomBytes(16).toString("hex");
  writeFileSync(join(folder, "tokens.csv"), `${token},admin,admin,system:masters\n`);
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      clusters: [
        { name: "test", cluster: { server: `https://127.0.0.1:${secure}`, "insecure-skip-tls-verify": true } },
      ],
      users: [{ name: "admin", user: { token } }],
      contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
      "current-context": "test",
    }),
  );
  const server = start(bin("kube-apiserver"), [
    ...["--etcd-servers", `http://127.0.0.1:${client}`, "--secure-port", String(secure), "--bind-address", "127.0.0.1"],
    ...["--cert-dir", join(folder, "certificates"), "--token-auth-file", join(folder, "tokens.csv")],
    ...["--service-account-issuer", "https://kubernetes.default.svc", "--authorization-mode", "RBAC"],
    ...["--service-account-key-file", join(folder, "accounts.pub")],
    ...["--service-account-signing-key-file", join(folder, "accounts.key")],
    ...["--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none"],
  ]);
  await waitFor("the API server", async () => {
    if (server.hasEnded()) throw new Error(server.output());
    return (await call(bin("kubectl"), ["--kubeconfig", kubeconfig, "get", "--raw", "/readyz"])).output === "ok";
  });
  // kubectl and Helm wait 32 seconds for the schema, which the server computes at the first request.
  await waitFor(
    "the schema",
    async () => (await call(bin("kubectl"), ["--kubeconfig", kubeconfig, "get", "--raw", "/openapi/v2"])).status === 0,
    { withinMs: 240_000 },
  );
}

function startControllers(folder: string, kubeconfig: string, start: Start): void {
  start(bin("kube-controller-manager"), [
    ...["--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port", "0"],
    ...["--service-account-private-key-file", join(folder, "accounts.key")],
    ...["--horizontal-pod-autoscaler-sync-period", "2s", "--horizontal-pod-autoscaler-initial-readiness-delay", "0s"],
    ...["--horizontal-pod-autoscaler-cpu-initialization-period", "1s"],
  ]);
  start(bin("kube-scheduler"), ["--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port", "0"]);
  start(bin("kwok"), [
    ...["--kubeconfig", kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds", "40"],
    ...["--config", fromRoot(".cache/deploy/kwok-stages.yaml")],
  ]);
}

function node(name: string, zone: string): unknown {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      labels: { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone },
    },
    status: { allocatable: { cpu: "32", memory: "256Gi", pods: "110", "ephemeral-storage": "100Gi" } },
  };
}

/** The definition of a custom resource that accepts everything. */
export function customResource(group: string, version: string, kind: string): unknown {
  const [singular, plural] = [kind.toLowerCase(), `${kind.toLowerCase()}s`];
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular },
      versions: [{ name: version, served: true, storage: true, schema }],
    },
  };
}

/** Serves metrics.k8s.io to the cluster: every pod uses `cpuMillis` of CPU and `memoryMi` of memory. */
export async function startMetrics(cluster: Cluster, usage: { cpuMillis: number; memoryMi: number }) {
  const authority = createTestAuthority();
  const { pem } = authority.issue("metrics");
  const group = { name: "metrics.k8s.io", version: "v1beta1" };
  const server = createServer({ cert: pem.cert, key: pem.key }, (request, response) => {
    const url = new URL(request.url ?? "/", "https://localhost");
    const [, namespace] = url.pathname.match(/\/namespaces\/([^/]+)\/pods$/) ?? [];
    const reply = (body: unknown) => response.setHeader("content-type", "application/json").end(JSON.stringify(body));
    if (namespace === undefined) {
      const resources = [
        { name: "pods", singularName: "", namespaced: true, kind: "PodMetrics", verbs: ["get", "list"] },
      ];
      reply({ kind: "APIResourceList", apiVersion: "v1", groupVersion: "metrics.k8s.io/v1beta1", resources });
      return;
    }
    const selector = url.searchParams.get("labelSelector") ?? "";
    cluster
      .json<PodList>("get", "pods", "--namespace", namespace, "--selector", selector)
      .then(({ items }) =>
        reply({ kind: "PodMetricsList", apiVersion: "metrics.k8s.io/v1beta1", items: items.map(measured) }),
      )
      .catch((error: unknown) => response.writeHead(500).end(String(error)));
  });
  const measured = ({ metadata, spec }: PodList["items"][number]) => ({
    metadata,
    timestamp: new Date().toISOString(),
    window: "10s",
    containers: spec.containers.map(({ name }) => ({
      name,
      usage: { cpu: `${usage.cpuMillis}m`, memory: `${usage.memoryMi}Mi` },
    })),
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  await cluster.apply(
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "metrics", namespace: "kube-system" },
      spec: { type: "ExternalName", externalName: "localhost", ports: [{ port }] },
    },
    {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: `${group.version}.${group.name}` },
      spec: {
        group: group.name,
        version: group.version,
        insecureSkipTLSVerify: true,
        groupPriorityMinimum: 100,
        versionPriority: 100,
        service: { name: "metrics", namespace: "kube-system", port },
      },
    },
  );
  return {
    usage,
    async stop(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      authority.remove();
    },
  };
}

interface PodList {
  items: { metadata: { name: string; namespace: string }; spec: { containers: { name: string }[] } }[];
}

/** The NetworkPolicies of the chart, evaluated for its pods: who can reach whom. No network plugin enforces them in the tests. */
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { helmTemplate } from "../../build/deploy/values.js";
import { describeWith } from "./support/needs.js";

type Labels = Record<string, string>;
interface Peer {
  podSelector?: { matchLabels?: Labels };
  namespaceSelector?: { matchLabels?: Labels };
  ipBlock?: { cidr: string };
}
interface Rule {
  ports?: { port: string | number }[];
  from?: Peer[];
  to?: Peer[];
}
interface Policy {
  podSelector: { matchLabels?: Labels };
  policyTypes: string[];
  ingress?: Rule[];
  egress?: Rule[];
}
interface Pod {
  name: string;
  namespace: string;
  labels: Labels;
  ports: { name: string; containerPort: number }[];
}

const NAMESPACE = "tollgate";
const has = (labels: Labels, wanted: Labels = {}) =>
  Object.entries(wanted).every(([name, value]) => labels[name] === value);

function matches(peer: Peer, pod: Pod): boolean {
  // Only blocks of all addresses are used here.
  if (peer.ipBlock !== undefined) return true;
  const isNamespace =
    peer.namespaceSelector === undefined
      ? pod.namespace === NAMESPACE
      : has({ "kubernetes.io/metadata.name": pod.namespace }, peer.namespaceSelector.matchLabels);
  return isNamespace && has(pod.labels, peer.podSelector?.matchLabels);
}

/** Whether the policies that select `pod` let it be called by, or call, the other one. */
function allows(policies: Policy[], type: "Ingress" | "Egress", pod: Pod, other: Pod, port: Pod["ports"][number]) {
  if (pod.namespace !== NAMESPACE) return true;
  const selecting = policies.filter(
    (policy) => policy.policyTypes.includes(type) && has(pod.labels, policy.podSelector.matchLabels),
  );
  const rules = selecting.flatMap((policy) => (type === "Ingress" ? policy.ingress : policy.egress) ?? []);
  return rules.some(({ ports, from, to }) => {
    const peers = from ?? to;
    const isPort = ports === undefined || ports.some((each) => [port.name, port.containerPort].includes(each.port));
    return isPort && (peers === undefined || peers.some((peer) => matches(peer, other)));
  });
}

/** "component port" → the components that reach it. */
function reachable(options: string[] = []): Record<string, string[]> {
  const documents = parseAllDocuments(helmTemplate("tollgate", [], options)).map((each) => each.toJS());
  const policies = documents
    .filter((each) => each?.kind === "NetworkPolicy")
    .map((each) => ({ ...each.spec, podSelector: each.spec.podSelector }) as Policy);
  const pods: Pod[] = documents
    .filter((each) => each?.kind === "Deployment")
    .map(({ metadata, spec }) => ({
      name: metadata.name.replace(/^tollgate-?/, "") || "service",
      namespace: NAMESPACE,
      labels: spec.template.metadata.labels,
      ports: spec.template.spec.containers.flatMap((container: { ports?: Pod["ports"] }) => container.ports ?? []),
    }));
  const others: Pod[] = ["monitoring", "ingress", "elsewhere"].map((name) => ({
    name,
    namespace: name,
    labels: {},
    ports: [],
  }));
  const found: Record<string, string[]> = {};
  for (const to of pods) {
    for (const port of to.ports) {
      const from = [...pods, ...others].filter(
        (each) => allows(policies, "Ingress", to, each, port) && allows(policies, "Egress", each, to, port),
      );
      found[`${to.name} ${port.name}`] = from.map(({ name }) => name).sort();
    }
  }
  return found;
}

describeWith(["tools"], "the NetworkPolicies", () => {
  it("let only services reach Redis, only Prometheus and pods of the release the control listeners", () => {
    const release = ["envoy", "nginx", "service"];
    const all = [...release, "elsewhere", "ingress", "monitoring"].sort();
    expect(reachable()).toEqual({
      "service http": all,
      "nginx http": all,
      "envoy http": all,
      "service control": [...release, "monitoring"].sort(),
      "service envoy": release,
      "nginx status": ["monitoring"],
      "redis-connection-tracker redis": ["service"],
      "demo-http http": release,
      "demo-websocket http": release,
    });
  });

  it("let clients of other namespaces reach no listener if client_namespaces names one", () => {
    const found = reachable(["--set", "network_policy.client_namespaces={ingress}"]);
    for (const [listener, from] of Object.entries(found)) expect(from, listener).not.toContain("elsewhere");
    expect(found["envoy http"]).toContain("ingress");
  });
});

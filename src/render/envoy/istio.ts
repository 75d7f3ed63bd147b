/** Renders an EnvoyFilter of Istio, which adds the parts to the Envoys of a gateway. */
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { RenderError, type RenderedFile } from "../common.js";
import { TYPES } from "./common.js";
import { GATEWAY_API, NAME, resource, resourceFile, secretResource, withoutNotes } from "./kubernetes.js";
import { type EnvoyRenderOptions, ISTIO, type KubernetesOptions } from "./options.js";
import type { EnvoyParts } from "./parts.js";

const MANAGER = "envoy.filters.network.http_connection_manager";
const MANAGER_TYPE = `${TYPES}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`;

export function istioFiles(parts: EnvoyParts, options: EnvoyRenderOptions, at: KubernetesOptions): RenderedFile[] {
  if (at.listeners.length > 0)
    throw new RenderError("--listener: an EnvoyFilter applies to all listeners of the gateway");
  const filter = resource("networking.istio.io/v1alpha3", "EnvoyFilter", at.namespace, {
    spec: {
      ...target(at),
      configPatches: [
        ...parts.clusters.map(cluster),
        manager(parts.manager),
        ...parts.filters.map(httpFilter),
        routeConfiguration(parts.routeConfig),
        // Each becomes the first one.
        ...[...parts.firstRoutes].reverse().map(firstRoute),
      ],
    },
  });
  const secretHead = `Written by \`tollgate render envoy --istio\`. Mount it in the pods of the gateway as ${options.path}.`;
  return [secretResource(parts, at.namespace, secretHead), resourceFile(ISTIO, head(options), [filter])];
}

function head({ mode, path }: EnvoyRenderOptions): string {
  const module =
    mode === "module"
      ? `
The image of the gateway must have libtollgate.so, and ENVOY_DYNAMIC_MODULES_SEARCH_PATH set to its folder: without it Envoy rejects
the listener. The module refuses an Envoy whose interface for modules is not the one of 1.38, 1.39 or 1.40.`
      : "";
  return `Written by \`tollgate render envoy --istio\`. Do not edit: change the configuration and render it again.
Mount the Secret ${NAME} as ${path} in the pods of the gateway, for example with these annotations of the pods:

  sidecar.istio.io/userVolume: '{"tollgate":{"secret":{"secretName":"${NAME}"}}}'
  sidecar.istio.io/userVolumeMount: '{"tollgate":{"mountPath":"${path}","readOnly":true}}'
${module}`;
}

/** The gateway of the Gateway API, or the ingress gateway of Istio's own API. */
function target({ gateway }: KubernetesOptions): YamlSection {
  if (gateway === undefined) {
    return {
      "# The pods of the gateway. In the root namespace of Istio this applies to those of all namespaces.": NOTE,
      workloadSelector: { labels: { istio: "ingressgateway" } },
    };
  }
  return { targetRefs: [{ group: GATEWAY_API, kind: "Gateway", name: gateway }] };
}

const context = "GATEWAY";

function cluster(value: YamlSection): YamlData {
  return { applyTo: "CLUSTER", match: { context }, patch: { operation: "ADD", value: withoutNotes(value) } };
}

function manager(settings: YamlSection): YamlData {
  return {
    "# Other values would let clients choose their address, or avoid limits by path.": NOTE,
    applyTo: "NETWORK_FILTER",
    match: { context, listener: { filterChain: { filter: { name: MANAGER } } } },
    patch: {
      operation: "MERGE",
      value: {
        name: MANAGER,
        typed_config: { "@type": MANAGER_TYPE, ...(withoutNotes(settings) as YamlSection) },
      },
    },
  };
}

function httpFilter(value: YamlSection): YamlData {
  const subFilter = { name: "envoy.filters.http.router" };
  return {
    applyTo: "HTTP_FILTER",
    match: { context, listener: { filterChain: { filter: { name: MANAGER, subFilter } } } },
    patch: { operation: "INSERT_BEFORE", value: withoutNotes(value) },
  };
}

function routeConfiguration(value: YamlSection): YamlData {
  return {
    applyTo: "ROUTE_CONFIGURATION",
    match: { context },
    patch: { operation: "MERGE", value: withoutNotes(value) },
  };
}

function firstRoute(value: YamlSection): YamlData {
  return {
    applyTo: "HTTP_ROUTE",
    match: { context },
    patch: { operation: "INSERT_FIRST", value: withoutNotes(value) },
  };
}

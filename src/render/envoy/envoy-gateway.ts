/** Renders resources of Envoy Gateway, which add the parts to the Envoys of a gateway. */
import { NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { RenderError, type RenderedFile } from "../common.js";
import { TYPES } from "./common.js";
import { GATEWAY_API, NAME, resource, resourceFile, secretResource, withoutNotes } from "./kubernetes.js";
import { ENVOY_GATEWAY, type EnvoyRenderOptions, type KubernetesOptions, SCRIPT } from "./options.js";
import type { EnvoyParts } from "./parts.js";

const API = "gateway.envoyproxy.io/v1alpha1";
const LISTENER = `${TYPES}.config.listener.v3.Listener`;
const ROUTES = `${TYPES}.config.route.v3.RouteConfiguration`;
const CLUSTER = `${TYPES}.config.cluster.v3.Cluster`;
const MANAGER = "..filters[?(@.name=='envoy.filters.network.http_connection_manager')].typed_config";
/** Where an init container puts the library. */
const LIBRARY = "/var/lib/tollgate-module";
/** Where the image has it; see deploy/docker/Dockerfile. */
const LIBRARY_IN_IMAGE = "/usr/local/lib/tollgate/libtollgate.so";

export function gatewayFiles(parts: EnvoyParts, options: EnvoyRenderOptions, at: KubernetesOptions): RenderedFile[] {
  const { gateway, namespace } = at;
  if (gateway === undefined) throw new RenderError("--gateway is missing: the name of the Gateway");
  const targetRef = { group: GATEWAY_API, kind: "Gateway", name: gateway };
  const isModule = options.mode === "module";
  const resources: YamlSection[] = [
    {
      "# Mounts the Secret. Merge it with your EnvoyProxy, if the Gateway or its class refers to one already.": NOTE,
      ...resource(API, "EnvoyProxy", namespace, { spec: proxy(options, at) }),
    },
    {
      "# Needs extensionApis.enableEnvoyPatchPolicy in the configuration of Envoy Gateway.": NOTE,
      ...resource(API, "EnvoyPatchPolicy", namespace, {
        spec: { targetRef, type: "JSONPatch", jsonPatches: patches(parts, options, at, gateway) },
      }),
    },
  ];
  if (isModule) {
    const module = { name: "tollgate", filterName: "tollgate", config: `${options.path}/${SCRIPT}` };
    resources.push({
      "# All routes of the Gateway. A policy of a single HTTPRoute replaces this one: it must list the module, too.":
        NOTE,
      ...resource(API, "EnvoyExtensionPolicy", namespace, {
        spec: { targetRefs: [targetRef], dynamicModule: [module] },
      }),
    });
  }
  const secretHead = "Written by `tollgate render envoy --envoy-gateway`. The EnvoyProxy mounts it.";
  return [secretResource(parts, namespace, secretHead), resourceFile(ENVOY_GATEWAY, head(gateway), resources)];
}

function head(gateway: string): string {
  return `Written by \`tollgate render envoy --envoy-gateway\`. Do not edit: change the configuration and render it again.
For Envoy Gateway 1.9. The Gateway ${gateway} must refer to the EnvoyProxy in infrastructure.parametersRef.`;
}

/** The deployment of the proxy: it has the Secret, and the library with the module allowed. */
function proxy({ mode, path }: EnvoyRenderOptions, { image }: KubernetesOptions): YamlSection {
  const isModule = mode === "module";
  const files = { name: NAME, mountPath: path, readOnly: true };
  const library = { name: "tollgate-module", mountPath: LIBRARY };
  return {
    ...(isModule
      ? {
          "# The module must stay loaded: its leases survive changes of the listeners.": NOTE,
          dynamicModules: [
            {
              name: "tollgate",
              source: { type: "Local", local: { path: `${LIBRARY}/libtollgate.so` } },
              doNotClose: true,
            },
          ],
        }
      : {}),
    provider: {
      type: "Kubernetes",
      kubernetes: {
        envoyDeployment: {
          initContainers: isModule
            ? [
                {
                  name: "tollgate-module",
                  image,
                  command: ["cp", LIBRARY_IN_IMAGE, LIBRARY],
                  volumeMounts: [library],
                },
              ]
            : undefined,
          pod: {
            volumes: [
              { name: NAME, secret: { secretName: NAME } },
              ...(isModule ? [{ name: library.name, emptyDir: {} }] : []),
            ],
          },
          container: { volumeMounts: isModule ? [files, { ...library, readOnly: true }] : [files] },
        },
      },
    },
  };
}

/** In the module's mode the policy adds the filter, disabled except on its routes. */
function patches(
  parts: EnvoyParts,
  options: EnvoyRenderOptions,
  { namespace, listeners }: KubernetesOptions,
  gateway: string,
): YamlData[] {
  const filters = options.mode === "module" ? [] : parts.filters;
  const ofListener = (listener: string): YamlData[] => {
    const name = `${namespace}/${gateway}/${listener}`;
    const add = (type: string, jsonPath: string | undefined, path: string, value: YamlData): YamlData => ({
      type,
      name,
      operation: { op: "add", jsonPath, path, value: withoutNotes(value) },
    });
    return [
      ...settings(parts.manager).map(([field, value]) => add(LISTENER, MANAGER, `/${field}`, value)),
      // Each becomes the first one.
      ...[...filters].reverse().map((filter) => add(LISTENER, MANAGER, "/http_filters/0", filter)),
      ...settings(parts.routeConfig).map(([field, value]) => add(ROUTES, undefined, `/${field}`, value)),
      ...[...parts.firstRoutes]
        .reverse()
        .map(({ typed_per_filter_config: _disabled, ...route }) => add(ROUTES, "virtual_hosts[*]", "/routes/0", route)),
    ];
  };
  const names = listeners.length === 0 ? ["http"] : listeners;
  return [...parts.clusters.map(cluster), ...names.flatMap(ofListener)];
}

function settings(section: YamlSection): [string, YamlData][] {
  return Object.entries(withoutNotes(section) as Record<string, YamlData>);
}

function cluster(value: YamlSection): YamlData {
  return {
    type: CLUSTER,
    name: String(value.name),
    operation: { op: "add", path: "", value: withoutNotes(value) },
  };
}

/** Listeners, clusters and routes in separate files, which Envoy reloads when they are replaced. */
import { commentedYaml, NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";

export const LISTENERS = "listeners.yaml";
export const CLUSTERS = "clusters.yaml";
export const ROUTES = "routes.yaml";

const types = {
  [LISTENERS]: "listener.v3.Listener",
  [CLUSTERS]: "cluster.v3.Cluster",
  [ROUTES]: "route.v3.RouteConfiguration",
} as const;

export type DynamicFile = keyof typeof types;

/** The source of such a file. Watches the folder, because some deployment tools replace a symbolic link in it. */
export function fromFile(folder: string, name: DynamicFile): YamlSection {
  return {
    resource_api_version: "V3",
    path_config_source: { path: `${folder}/${name}`, watched_directory: { path: folder } },
  };
}

export function dynamicResources(folder: string): YamlSection {
  return {
    "# Envoy reloads these files when they are replaced, and ignores an invalid file.": NOTE,
    dynamic_resources: { lds_config: fromFile(folder, LISTENERS), cds_config: fromFile(folder, CLUSTERS) },
  };
}

export function dynamicFile(name: DynamicFile, note: string, resources: readonly YamlSection[]): string {
  const head = `Written by \`tollgate render envoy --dynamic\`. Do not edit: change the configuration and render it again.\n${note}`;
  const typed: YamlData[] = resources.map((resource) => ({
    "@type": `type.googleapis.com/envoy.config.${types[name]}`,
    ...resource,
  }));
  return commentedYaml(head, { resources: typed });
}

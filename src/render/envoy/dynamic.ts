/** Parts of Envoy's configuration as files of their own, which it reads again whenever they are replaced. */
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

/** Where Envoy finds such a file: the whole folder is watched, as some who replace files swap a link there. */
export function fromFile(folder: string, name: DynamicFile): YamlSection {
  return {
    resource_api_version: "V3",
    path_config_source: { path: `${folder}/${name}`, watched_directory: { path: folder } },
  };
}

export function dynamicResources(folder: string): YamlSection {
  return {
    "# Read again whenever they are replaced; a file with a mistake in it changes nothing.": NOTE,
    dynamic_resources: { lds_config: fromFile(folder, LISTENERS), cds_config: fromFile(folder, CLUSTERS) },
  };
}

export function dynamicFile(name: DynamicFile, word: string, resources: readonly YamlSection[]): string {
  const head = `Written by \`tollgate render envoy --dynamic\`: change the configuration and render it again.\n${word}`;
  const typed: YamlData[] = resources.map((resource) => ({
    "@type": `type.googleapis.com/envoy.config.${types[name]}`,
    ...resource,
  }));
  return commentedYaml(head, { resources: typed });
}

/** Resources of Kubernetes for an Envoy that Istio or Envoy Gateway configures: what both have in common. */
import { commentedYaml, NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { RenderError, type RenderedFile } from "../common.js";
import type { EnvoyParts } from "./parts.js";

/** The name of all rendered resources. */
export const NAME = "tollgate-envoy";
export const SECRET = "secret.yaml";
/** The limit of the API server. */
const MAX_SECRET_BYTES = 1_048_576;

export const GATEWAY_API = "gateway.networking.k8s.io";

export function resource(apiVersion: string, kind: string, namespace: string, spec: YamlSection): YamlSection {
  return { apiVersion, kind, metadata: { name: NAME, namespace }, ...spec };
}

/** The files of the proxy as a Secret, which its pods mount. */
export function secretResource({ files }: EnvoyParts, namespace: string, head: string): RenderedFile {
  const bytes = files.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_SECRET_BYTES) {
    throw new RenderError(`${NAME}: a Secret has at most ${MAX_SECRET_BYTES} bytes, and the files have ${bytes}`);
  }
  const stringData = Object.fromEntries(files.map(({ name, text }) => [name, text]));
  return {
    name: SECRET,
    text: commentedYaml(head, resource("v1", "Secret", namespace, { type: "Opaque", stringData })),
    secret: true,
  };
}

/** Several resources in one file, each with a comment. */
export function resourceFile(name: string, head: string, resources: readonly YamlSection[]): RenderedFile {
  const [first = {}, ...others] = resources;
  const texts = [commentedYaml(head, first), ...others.map((each) => commentedYaml("", each))];
  return { name, text: texts.join("---\n"), secret: false };
}

/** The comments belong to a bootstrap; here they would be repeated for each patch. */
export function withoutNotes(data: YamlData): YamlData {
  if (Array.isArray(data)) return data.map((each: YamlData) => withoutNotes(each));
  if (typeof data !== "object") return data;
  const entries = Object.entries(data as YamlSection).flatMap(([key, value]) =>
    value === undefined || (key.startsWith("#") && value === NOTE) ? [] : [[key, withoutNotes(value)] as const],
  );
  return Object.fromEntries(entries);
}

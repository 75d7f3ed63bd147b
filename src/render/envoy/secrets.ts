/** Secrets of the Envoy configuration: files of their own, which Envoy reloads and does not show in its admin interface. */
import { dirname } from "node:path";
import type { Config } from "../../config/schema.js";
import { commentedYaml, NOTE, type YamlData, type YamlSection } from "../commented-yaml.js";
import { type CommonRenderOptions, planeToken, type RenderedFile, type Upstream, usedUpstreams } from "../common.js";
import { extension, fromFile, TYPES } from "./common.js";
import { DEFAULT_NODE, type EnvoyRenderOptions } from "./options.js";

/** Names of secrets. Each is in a file of its own: Envoy accepts only one per file. */
const TOKEN = "token";
const LISTENER = "listener";
const SERVICE_CA = "service-ca";
const SERVICE_CLIENT = "service-client";
const upstreamCa = (id: string) => `upstream-${id}-ca`;
const upstreamClient = (id: string) => `upstream-${id}-client`;

const SECRET = "extensions.transport_sockets.tls.v3.Secret";
const SYSTEM_ROOTS = "/etc/ssl/certs/ca-certificates.crt";

const fileOf = (name: string) => `secret-${name.replace(/[^A-Za-z0-9.-]/g, (odd) => `_${odd.charCodeAt(0)}_`)}.yaml`;

function tokenOf(config: Config, options: EnvoyRenderOptions): string {
  return planeToken(config, { ...options, node: options.node ?? DEFAULT_NODE }, "Envoy");
}

/** Every secret that the configuration refers to. */
export function secretFiles(config: Config, options: EnvoyRenderOptions): RenderedFile[] {
  const token = tokenOf(config, options);
  const { tls, serviceTls } = options;
  const secrets: [name: string, value: YamlSection][] = [];
  if (token !== "") secrets.push([TOKEN, { generic_secret: { secret: { inline_string: `Bearer ${token}` } } }]);
  if (tls !== undefined) secrets.push([LISTENER, certificate(tls)]);
  const { ca, client } = serviceTls ?? {};
  if (ca !== undefined) secrets.push([SERVICE_CA, authority(ca)]);
  if (client !== undefined) secrets.push([SERVICE_CLIENT, certificate(client)]);
  for (const [id, { tls: own }] of usedUpstreams(config)) {
    if (own?.ca !== undefined) secrets.push([upstreamCa(id), authority(own.ca)]);
    const { cert, key } = own ?? {};
    if (cert !== undefined && key !== undefined)
      secrets.push([upstreamClient(id), certificate({ certificate: cert, key })]);
  }
  const head = "Written by `tollgate render envoy`. Envoy reloads this file when it is replaced.";
  return secrets.map(([name, value]) => ({
    name: fileOf(name),
    text: commentedYaml(head, { resources: [{ "@type": `${TYPES}.${SECRET}`, name, ...value }] }),
    secret: name === TOKEN,
  }));
}

/** Envoy reloads the files when one in the folder is replaced. */
function certificate({ certificate: chain, key }: { certificate: string; key: string }): YamlSection {
  return {
    tls_certificate: {
      certificate_chain: { filename: chain },
      private_key: { filename: key },
      watched_directory: { path: dirname(chain) },
    },
  };
}

function authority(ca: string): YamlSection {
  return { validation_context: { trusted_ca: { filename: ca }, watched_directory: { path: dirname(ca) } } };
}

function secretSource(name: string, { path }: Pick<CommonRenderOptions, "path">): YamlData {
  return { name, sds_config: fromFile(path, fileOf(name)) };
}

/** Upstream filters that add the token to every call of the service; undefined if the plane has only a certificate. */
export function credentialFilters(config: Config, options: EnvoyRenderOptions): YamlSection[] | undefined {
  if (tokenOf(config, options) === "") return undefined;
  const generic = extension(
    "envoy.http.injected_credentials.generic",
    "extensions.http.injected_credentials.generic.v3.Generic",
    { credential: secretSource(TOKEN, options) },
  );
  const codec = "extensions.filters.http.upstream_codec.v3.UpstreamCodec";
  return [
    {
      "# Adds the token of the data planes. It is in a file of its own, not in the configuration that the admin interface shows.":
        NOTE,
      ...extension(
        "envoy.filters.http.credential_injector",
        "extensions.filters.http.credential_injector.v3.CredentialInjector",
        { overwrite: true, credential: generic },
      ),
    },
    extension("envoy.filters.http.upstream_codec", codec),
  ];
}

export function downstreamTls(options: EnvoyRenderOptions): YamlData {
  return extension("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.DownstreamTlsContext", {
    common_tls_context: {
      tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
      alpn_protocols: ["h2", "http/1.1"],
      tls_certificate_sds_secret_configs: [secretSource(LISTENER, options)],
    },
  });
}

/** What the certificate of a server must have. */
export interface ExpectedNames {
  dns: string[];
  addresses: string[];
}

export function serviceTls(names: ExpectedNames, options: EnvoyRenderOptions): YamlData {
  const { ca, client } = options.serviceTls ?? {};
  const secrets = {
    ca: ca === undefined ? undefined : SERVICE_CA,
    client: client === undefined ? undefined : SERVICE_CLIENT,
  };
  return clientTls(names, secrets, options);
}

export function upstreamTls(
  id: string,
  { tls }: Upstream,
  names: ExpectedNames,
  options: EnvoyRenderOptions,
): YamlData {
  const secrets = {
    ca: tls?.ca === undefined ? undefined : upstreamCa(id),
    client: tls?.cert === undefined ? undefined : upstreamClient(id),
  };
  return clientTls(names, secrets, options);
}

function clientTls(
  { dns, addresses }: ExpectedNames,
  secrets: { ca: string | undefined; client: string | undefined },
  options: EnvoyRenderOptions,
): YamlData {
  const alternatives = [
    ...dns.map((name) => ({ san_type: "DNS", matcher: { exact: name } })),
    ...addresses.map((address) => ({ san_type: "IP_ADDRESS", matcher: { exact: address } })),
  ];
  const { ca, client } = secrets;
  const validation =
    ca === undefined
      ? { validation_context: { trusted_ca: { filename: SYSTEM_ROOTS }, match_typed_subject_alt_names: alternatives } }
      : {
          combined_validation_context: {
            default_validation_context: { match_typed_subject_alt_names: alternatives },
            validation_context_sds_secret_config: secretSource(ca, options),
          },
        };
  return extension("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.UpstreamTlsContext", {
    sni: dns[0],
    common_tls_context: {
      tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
      tls_certificate_sds_secret_configs: client === undefined ? undefined : [secretSource(client, options)],
      ...validation,
    },
  });
}

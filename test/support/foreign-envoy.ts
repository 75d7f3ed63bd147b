/** An Envoy with a bootstrap that someone else wrote: two clusters, three routes, a filter. Tests add a fragment to it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { envoyBinary, moduleFolder } from "./find-envoy.js";
import { freePort } from "./ports.js";
import { startProcess } from "./processes.js";
import { waitFor } from "./wait-for.js";

type Section = Record<string, unknown>;

interface Manager extends Section {
  http_filters: Section[];
  route_config: Section & { virtual_hosts: { routes: Section[] }[] };
}

export interface Bootstrap {
  node?: Section;
  static_resources: {
    listeners: { filter_chains: { filters: { typed_config: Manager }[] }[] }[];
    clusters: Section[];
  };
}

interface Fragment {
  node: Section;
  clusters: Section[];
  http_filters: Section[];
  http_connection_manager: Section;
  route_config: Section;
  first_routes: Section[];
}

const bootstrapText = (port: number, admin: string, shop: number, pages: number) => `
admin: { address: { pipe: { path: ${admin} } } }
static_resources:
  listeners:
    - name: public
      address: { socket_address: { address: 127.0.0.1, port_value: ${port} } }
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: public
                http_filters:
                  - name: envoy.filters.http.cors
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors }
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - name: everything
                      domains: ["*"]
                      response_headers_to_add: [{ header: { key: x-theirs, value: "yes" } }]
                      routes:
                        - { match: { prefix: /shop/ }, route: { cluster: shop, prefix_rewrite: / } }
                        - { match: { path: /old }, redirect: { path_redirect: /new } }
                        - { match: { prefix: / }, route: { cluster: pages } }
  clusters:
    - name: shop
      type: STATIC
      load_assignment:
        cluster_name: shop
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${shop} } } } }] }]
    - name: pages
      type: STATIC
      load_assignment:
        cluster_name: pages
        endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: ${pages} } } } }] }]
`;

/** Adds each part where the comments of the fragment say. */
function merge(bootstrap: Bootstrap, fragment: Fragment): void {
  const { listeners, clusters } = bootstrap.static_resources;
  bootstrap.node ??= fragment.node;
  clusters.push(...fragment.clusters);
  for (const { typed_config: manager } of listeners.flatMap(({ filter_chains }) => filter_chains[0]!.filters)) {
    manager.http_filters.splice(-1, 0, ...fragment.http_filters);
    Object.assign(manager, fragment.http_connection_manager);
    Object.assign(manager.route_config, fragment.route_config);
    for (const host of manager.route_config.virtual_hosts) host.routes.unshift(...fragment.first_routes);
  }
}

export interface ForeignEnvoy {
  readonly url: string;
  stop(): Promise<void>;
}

/** `folder`: of the fragment and its files. `edit` changes the merged bootstrap. */
export async function startForeignEnvoy(
  backends: { shop: number; pages: number },
  folder: string,
  edit: (bootstrap: Bootstrap) => void = () => {},
): Promise<ForeignEnvoy> {
  const dir = mkdtempSync(join(tmpdir(), "tollgate-foreign-"));
  const [port, admin] = [await freePort(), join(dir, "admin.sock")];
  const bootstrap: Bootstrap = parse(bootstrapText(port, admin, backends.shop, backends.pages));
  merge(bootstrap, parse(readFileSync(join(folder, "fragment.yaml"), "utf8")));
  edit(bootstrap);
  const file = join(dir, "envoy.json");
  writeFileSync(file, JSON.stringify(bootstrap));
  const args = ["-c", file, "--concurrency", "2", "-l", "warning", "--use-dynamic-base-id"];
  const child = startProcess(envoyBinary(), args, dir, { ENVOY_DYNAMIC_MODULES_SEARCH_PATH: moduleFolder() });
  const stop = async () => {
    await child.end("SIGKILL");
    rmSync(dir, { recursive: true, force: true });
  };
  const isReady = () =>
    new Promise<boolean>((resolve) => {
      const call = request({ socketPath: admin, path: "/ready" }, (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      });
      call.on("error", () => resolve(false));
      call.end();
    });
  await waitFor("Envoy to serve", async () => child.hasEnded() || (await isReady()));
  if (child.hasEnded()) {
    await stop();
    throw new Error(`Envoy ended:\n${child.output()}`);
  }
  return { url: `http://127.0.0.1:${port}`, stop };
}

/** `tollgate render nginx`: what the command line says about an nginx, and the files that come of it. */
import { resolve } from "node:path";
import type { Rendered } from "../render/files.js";
import { renderNginx } from "../render/nginx/nginx.js";
import { DEFAULT_STATUS, type RenderOptions } from "../render/nginx/options.js";
import { configOrComplain } from "./check-config.js";
import { readOptions, UsageError } from "./command.js";
import { checkNode, type Place, readBundle, tlsOf } from "./render-files.js";

export const nginxHelp = `Usage: tollgate render nginx --config FILE --out DIR [options]

Writes what nginx needs to hold the limits of the configuration: the Lua bundle, its settings, two includes, and a whole
nginx.conf with the upstreams and routes. Debian's nginx needs the package libnginx-mod-http-lua; OpenResty has all.

  --config FILE          the configuration
  --out DIR              where the files go; made if it is not there
  --service HOST:PORT    control listener of a service, again for each of several; else that of the configuration
  --include              the includes alone, for an nginx that has a configuration already
  --openresty            for OpenResty instead of Debian's nginx
  --path DIR             where the files will lie when nginx reads them, if not in --out
  --run DIR              pid, logs and temporary files go there
  --workers N            processes of nginx; else as many as it finds right
  --node NAME            the name of the node; else host name and process of each nginx
  --status HOST:PORT     metrics and health of the nginx are to be had there; else 127.0.0.1:9146
  --resolver ADDRESS     name server, for services and upstreams that are names
  --tls-certificate FILE, --tls-key FILE   makes the listener speak TLS

Example:
  tollgate render nginx --config tollgate.yaml --out /etc/nginx/tollgate --service 10.0.0.5:9145
`;

const optionSpecs = {
  config: { type: "string" },
  out: { type: "string" },
  service: { type: "string", multiple: true },
  include: { type: "boolean", default: false },
  openresty: { type: "boolean", default: false },
  path: { type: "string" },
  run: { type: "string" },
  workers: { type: "string" },
  node: { type: "string" },
  status: { type: "string" },
  resolver: { type: "string" },
  "tls-certificate": { type: "string" },
  "tls-key": { type: "string" },
} as const;

export function renderForNginx(args: string[], place: Place): Rendered {
  const values = readOptions(args, optionSpecs);
  const out = place(values.out);
  return renderNginx(configOrComplain(values.config), {
    ...optionsOf(values),
    path: resolve(values.path ?? out),
    bundle: readBundle("nginx"),
  });
}

type Values = ReturnType<typeof readOptions<typeof optionSpecs>>;

function optionsOf(values: Values): Omit<RenderOptions, "path" | "bundle"> {
  checkNode(values.node);
  const tls = tlsOf(values);
  if (values.workers !== undefined && !/^[1-9][0-9]{0,2}$/.test(values.workers)) {
    throw new UsageError("--workers must be a whole number from 1 to 999");
  }
  return {
    services: values.service ?? [],
    flavour: values.openresty ? "openresty" : "debian",
    includeOnly: values.include,
    status: values.status ?? DEFAULT_STATUS,
    ...(values.workers === undefined ? {} : { workers: Number(values.workers) }),
    ...(values.node === undefined ? {} : { node: values.node }),
    ...(values.run === undefined ? {} : { runDir: resolve(values.run) }),
    ...(values.resolver === undefined ? {} : { resolver: values.resolver }),
    ...(tls === undefined ? {} : { tls }),
  };
}

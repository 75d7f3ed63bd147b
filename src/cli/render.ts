/** `tollgate render`: writes the configuration in the words of another proxy, with all that it needs to decide. */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { DEFAULT_STATUS, type RenderOptions, renderNginx } from "../render/nginx.js";
import { configOrComplain } from "./check-config.js";
import { type Command, readArguments, UsageError } from "./command.js";

const help = `Usage: tollgate render nginx --config FILE --out DIR [options]

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

export const renderCommand: Command = {
  name: "render",
  summary: "Writes the configuration for another proxy, such as nginx",
  help,
  run(args) {
    const { values, words } = readArguments(args, optionSpecs);
    if (words.length !== 1 || words[0] !== "nginx") throw new UsageError("say what to render for: nginx");
    if (values.out === undefined) throw new UsageError("--out is missing");
    const out = resolve(values.out);
    const { files, warnings } = renderNginx(configOrComplain(values.config), {
      ...optionsOf(values),
      path: resolve(values.path ?? out),
      bundle: readBundle(),
    });
    mkdirSync(out, { recursive: true });
    for (const { name, text, secret } of files) replace(join(out, name), text, secret);
    const lines = [...files.map(({ name }) => join(out, name)), ...warnings.map((each) => `note: ${each}`)];
    return `${lines.join("\n")}\n`;
  },
};

type Values = ReturnType<typeof readArguments<typeof optionSpecs>>["values"];

function optionsOf(values: Values): Omit<RenderOptions, "path" | "bundle"> {
  const { "tls-certificate": certificate, "tls-key": key } = values;
  if ((certificate === undefined) !== (key === undefined)) {
    throw new UsageError("--tls-certificate and --tls-key go together");
  }
  if (values.node !== undefined && !/^[A-Za-z0-9._:-]{1,100}$/.test(values.node)) {
    throw new UsageError("--node must be 1 to 100 of A–Z a–z 0–9 . _ : -");
  }
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
    ...(certificate === undefined || key === undefined ? {} : { tls: { certificate, key } }),
  };
}

/** The same place seen from `src/cli` and from `dist/cli`. */
function readBundle(): string {
  try {
    return readFileSync(new URL("../../dist/lua/nginx/tollgate.lua", import.meta.url), "utf8");
  } catch (cause) {
    throw new Error("dist/lua/nginx/tollgate.lua is missing: run `make build`.", { cause });
  }
}

/** In one step: an nginx that reloads meanwhile reads the old file or the new one. */
function replace(path: string, text: string, secret: boolean): void {
  const next = `${path}.${process.pid}`;
  writeFileSync(next, text, { mode: secret ? 0o600 : 0o644 });
  chmodSync(next, secret ? 0o600 : 0o644);
  renameSync(next, path);
}

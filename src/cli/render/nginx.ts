/** `tollgate render nginx`: its options. */
import { resolve } from "node:path";
import { renderNginx } from "../../render/nginx/nginx.js";
import { MIN_OPEN_FILES } from "../../render/nginx/open-files.js";
import { DEFAULT_STATUS, type RenderOptions } from "../../render/nginx/options.js";
import { flagOption, readOptions, textOption, UsageError } from "../command.js";
import { readWhole } from "../numbers.js";
import { commonOptions, readBundle, readCommon, renderTo } from "./files.js";

export const nginxHelp = `Usage: tollgate render nginx --config FILE --out DIR [options]

Writes the files with which nginx enforces the limits of the configuration: the Lua bundle, its settings, includes, and a
complete nginx.conf with upstreams and routes. Debian's nginx needs the package libnginx-mod-http-lua; OpenResty needs
nothing else.

  --config FILE          the configuration
  --out DIR              output folder; created if missing
  --service HOST:PORT    control listener of a service; repeat for several (default: from the configuration)
  --include              write only the includes, for an nginx that already has a configuration
  --own-lua              with --include: write no Lua directives; the Lua of that configuration calls Tollgate
  --openresty            for OpenResty instead of Debian's nginx
  --resolve              replace upstreams with dns by their current addresses, and list these in addresses.txt
  --path DIR             the folder from which nginx reads the files, if not --out
  --listen HOST:PORT     address for clients in nginx.conf (default: listen of the configuration)
  --run DIR              folder for pid file, logs and temporary files
  --workers N            worker processes (default: auto)
  --open-files N         open files that the system permits a worker, as \`ulimit -Hn\` prints: worker_connections stays below it
                         (default: as many as are needed, which the system must permit)
  --node NAME            name of the node (default: host name and process of each nginx)
  --status HOST:PORT     listener for metrics and health (default: ${DEFAULT_STATUS})
  --resolver ADDRESS     name server for services and upstreams with host names
  --tls-certificate FILE, --tls-key FILE   enable TLS on the listener
  --service-ca FILE          if control.tls is set: CA certificates of the services (default: those of the system)
  --service-name NAME        the name in the certificates of the services (default: their host)
  --client-certificate FILE, --client-key FILE   own certificate for the services

Example:
  tollgate render nginx --config tollgate.yaml --out /etc/nginx/tollgate --service 10.0.0.5:9145
`;

const optionSpecs = {
  ...commonOptions,
  include: flagOption,
  "own-lua": flagOption,
  listen: textOption,
  openresty: flagOption,
  run: textOption,
  "open-files": textOption,
  status: { type: "string", default: DEFAULT_STATUS },
  resolver: textOption,
} as const;

/** Writes the files and returns their names. */
export function renderForNginx(args: string[]): string | Promise<string> {
  const values = readOptions(args, optionSpecs);
  const { out, options } = readCommon(values);
  if (values["own-lua"] && !values.include) throw new UsageError("--own-lua requires --include");
  if (values.listen !== undefined && values.include)
    throw new UsageError("--listen: with --include, nginx has its own");
  const openFiles = values["open-files"];
  if (openFiles !== undefined && values.include)
    throw new UsageError("--open-files: with --include, nginx has its own");
  const all: RenderOptions = {
    ...options,
    flavour: values.openresty ? "openresty" : "debian",
    includeOnly: values.include,
    ownLua: values["own-lua"],
    listen: values.listen,
    openFiles:
      openFiles === undefined ? undefined : readWhole("--open-files", openFiles, { least: MIN_OPEN_FILES, most: 1e9 }),
    status: values.status,
    runDir: values.run === undefined ? undefined : resolve(values.run),
    resolver: values.resolver,
    bundle: readBundle("nginx"),
  };
  return renderTo(out, values, (config) => renderNginx(config, all));
}

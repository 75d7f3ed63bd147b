/** `tollgate serve`: runs the gateway and the control listener until SIGTERM or SIGINT. */

import { randomBytes } from "node:crypto";
import { credentialProblems } from "../config/credentials.js";
import { readLargeConfig } from "../config/live/read-large.js";
import { readText } from "../config/load.js";
import type { Config } from "../config/schema.js";
import { withFileChecks } from "../config/tls-files.js";
import { parseAddress } from "../config/values.js";
import { startDemoBackend } from "../service/process/demo-backend.js";
import { startDemoTraffic } from "../service/process/demo-traffic.js";
import { createLogWriter } from "../service/process/log-writer.js";
import { type Listening, type Service, serve } from "../service/process/serve.js";
import { configOrThrow } from "./check-config.js";
import { type Command, type OptionValues, readOptions, textOption, UsageError } from "./command.js";
import { readWhole } from "./numbers.js";

const help = `Usage: tollgate serve [--config FILE] [--listen HOST:PORT] [--control HOST:PORT] [--workers N]

Runs the gateway until SIGTERM or SIGINT. It then stops accepting connections, finishes running requests, returns its
tokens and exits. It reloads the configuration when the file changes, on SIGHUP and on tollgate reload; an invalid one
changes nothing. Without a file it runs a demo with the embedded store, a small backend and light traffic of some apps;
the dashboard of the demo needs no token on this machine, unless TOLLGATE_ADMIN_TOKEN is set.

  --config   a YAML file; see tollgate check-config
  --listen   overrides listen
  --control  overrides control.listen
  --workers  overrides workers

Example:
  tollgate serve --config examples/gateway.yaml
`;

const optionSpecs = { config: textOption, listen: textOption, control: textOption, workers: textOption } as const;

export const command: Command = {
  help,
  async run(args) {
    const options = readOptions(args, optionSpecs);
    checkOptions(options);
    const demo = options.config === undefined ? await startDemoBackend() : undefined;
    const isOpen = demo !== undefined && (process.env.TOLLGATE_ADMIN_TOKEN ?? "") === "";
    let traffic: ReturnType<typeof startDemoTraffic> | undefined;
    try {
      const overrides = (config: Config) => withOptions(config, options);
      const { text: yaml = "", problems } =
        demo === undefined ? readText(options.config!) : { text: demoYaml(demo.target, isOpen), problems: [] };
      const loaded = problems.length > 0 ? { config: undefined, problems } : await readLargeConfig(yaml, process.env);
      const config = checked(overrides(configOrThrow(options.config, withFileChecks(loaded))), options.config);
      const service = serve({
        config,
        yaml,
        file: options.config,
        env: process.env,
        overrides,
        commandLine: namesOf(options),
        isOpen,
      });
      const stopped = untilStopped(service);
      const listening = await Promise.race([service.ready, stopped]);
      if (demo !== undefined && listening !== undefined) {
        createLogWriter().write(greeting(listening, isOpen));
        traffic = startDemoTraffic({ url: `http://127.0.0.1:${listening.gateway?.port}` });
      } else if (listening !== undefined) {
        service.log.info({ url: dashboardUrl(config, listening) }, "dashboard");
      }
      await stopped;
    } finally {
      traffic?.stop();
      await demo?.close();
    }
    return "";
  },
};

/** The options may have changed the addresses of listeners. */
function checked(config: Config, file: string | undefined): Config {
  const problems = credentialProblems(config);
  return problems.length === 0 ? config : configOrThrow(file, { config: undefined, problems });
}

type Overrides = OptionValues<Omit<typeof optionSpecs, "config">>;

function checkOptions({ listen, control, workers }: Overrides): void {
  for (const [name, address] of Object.entries({ listen, control })) {
    if (address !== undefined && parseAddress(address) === undefined) {
      throw new UsageError(`--${name}: ${JSON.stringify(address)} is not host:port`);
    }
  }
  if (workers !== undefined) readWhole("--workers", workers, { least: 1, most: 256 });
}

function withOptions(config: Config, { listen, control, workers }: Overrides): Config {
  return {
    ...config,
    listen: listen ?? config.listen,
    workers: workers === undefined ? config.workers : Number(workers),
    control: { ...config.control, listen: control ?? config.control.listen },
  };
}

/** The options of the configuration that the command line sets. */
function namesOf({ listen, control, workers }: Overrides): string[] {
  const given = { listen, "control.listen": control, workers };
  return Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [name]));
}

/** @param isOpen nobody needs the admin token, so nobody gets to know it */
function demoYaml(target: string, isOpen: boolean): string {
  const token = isOpen ? randomBytes(24).toString("hex") : `\${TOLLGATE_ADMIN_TOKEN}`;
  return `
log: { level: warn }
control: { admin_token: "${token}", plane_token: "\${TOLLGATE_PLANE_TOKEN:-}" }
identity: { trusted_hops: [127.0.0.0/8, "::1/128"] }
apps:
  default: { guaranteed: 1000, burst: 2000 }
  demo: { guaranteed: 1, burst: 10 }
  checkout: { guaranteed: 50, burst: 200, priority: 0 }
  search: { guaranteed: 40, burst: 100 }
  mobile: { guaranteed: 20, burst: 60, borrow: true }
  reports: { guaranteed: 10, burst: 30, priority: 3 }
  import: { guaranteed: 10, burst: 50, priority: 2 }
upstreams: { demo: { targets: ["${target}"] } }
routes: [{ path: /, upstream: demo }]
`;
}

function dashboardUrl({ control: { tls } }: Config, { control }: Listening): string {
  const host = ["0.0.0.0", "::", "127.0.0.1", "::1"].includes(control.host) ? "localhost" : control.host;
  return `${tls === undefined ? "http" : "https"}://${host}:${control.port}/`;
}

function greeting({ gateway, control }: Listening, isOpen: boolean): string {
  const [here, there] = [`localhost:${gateway?.port}`, `localhost:${control.port}`];
  const commands = [
    [`curl -i ${here}/api/hello`, "the headers show the cost"],
    [`curl -i -H 'X-App-Id: demo' ${here}/api/hello`, "an app with 10 tokens and 1 per second: soon 429"],
    [`curl -s ${here}/api/big?bytes=1048576 | wc -c`, "a megabyte is charged when it has been sent"],
    [`curl -s ${there}/health/ready`, "the control listener"],
    [`curl -s ${there}/metrics`, "metrics for Prometheus"],
    [`${self()} status --watch`, "what the gateway does"],
    [`${self()} why demo`, "why requests of the app are refused"],
  ] as const;
  const longest = Math.max(...commands.map(([command]) => command.length));
  return `tollgate is running with a demo backend and light traffic.

  Dashboard: http://${there}/${isOpen ? "" : "   (sign in with TOLLGATE_ADMIN_TOKEN)"}

Try:
${commands.map(([command, effect]) => `  ${command.padEnd(longest)}   ${effect}`).join("\n")}

Press Ctrl-C to stop.
`;
}

/** How the user calls this program. */
function self(): string {
  const isOnPath = process.argv[1]?.endsWith("/tollgate") && process.env.npm_command !== "exec";
  return isOnPath ? "tollgate" : "npx tollgate";
}

/** npm and make forward a signal that the terminal has already sent to all processes: the same signal, twice. */
const REPEATED_SIGNAL_MS = 500;

/** The first signal stops gracefully, a later one immediately. */
function untilStopped(service: Service): Promise<void> {
  return new Promise((resolve, reject) => {
    let stoppingSince: number | undefined;
    const stop = (signal: NodeJS.Signals) => {
      if (stoppingSince !== undefined) {
        if (performance.now() - stoppingSince > REPEATED_SIGNAL_MS) process.exit(1);
        return;
      }
      stoppingSince = performance.now();
      service.log.info({ signal }, "stopping");
      service.stop().then(resolve, reject);
    };
    process.on("SIGHUP", () => {
      service.log.info({ signal: "SIGHUP" }, "reloading the configuration");
      service.reload().catch((error: unknown) => service.log.error({ err: error }, "reload failed"));
    });
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}

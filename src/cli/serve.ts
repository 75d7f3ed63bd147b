/** `tollgate serve`: runs the gateway and the control listener until it is told to stop. */
import { readConfig } from "../config/load.js";
import type { Config } from "../config/schema.js";
import { parseAddress } from "../config/values.js";
import { startDemoBackend } from "../service/process/demo-backend.js";
import { type Listening, type Service, serve } from "../service/process/serve.js";
import { configOrComplain } from "./check-config.js";
import { type Command, readOptions, UsageError } from "./command.js";

const help = `Usage: tollgate serve [--config FILE] [--listen HOST:PORT] [--control HOST:PORT] [--workers N]

Runs the gateway until SIGTERM or SIGINT: then it stops accepting, finishes what runs, returns its tokens and ends.
A changed file, SIGHUP and tollgate reload have it read the configuration again; a bad one changes nothing.
Without a file it runs a demo: the embedded store, a small backend, and an app with a low limit to try.

  --config   a YAML file; see tollgate check-config
  --listen   instead of the file's listen
  --control  instead of the file's control.listen
  --workers  instead of the file's workers

Example:
  tollgate serve --config examples/gateway.yaml
`;

export const serveCommand: Command = {
  name: "serve",
  summary: "Run the gateway; without a file, a demo",
  help,
  async run(args) {
    const options = readOptions(args, {
      config: { type: "string" },
      listen: { type: "string" },
      control: { type: "string" },
      workers: { type: "string" },
    });
    checkOptions(options);
    const demo = options.config === undefined ? await startDemoBackend() : undefined;
    try {
      const overrides = (config: Config) => withOptions(config, options);
      const yaml = demo === undefined ? undefined : demoYaml(demo.target);
      const config = yaml === undefined ? configOrComplain(options.config) : demoConfig(yaml);
      const service = serve({
        ...{ config: overrides(config), file: options.config, env: process.env, overrides },
        ...(yaml === undefined ? {} : { yaml }),
      });
      const told = untilTold(service);
      const listening = await Promise.race([service.ready, told]);
      if (demo !== undefined && listening !== undefined) process.stdout.write(greeting(listening));
      await told;
    } finally {
      await demo?.close();
    }
    return "";
  },
};

interface Overrides {
  listen?: string | undefined;
  control?: string | undefined;
  workers?: string | undefined;
}

function checkOptions({ listen, control, workers }: Overrides): void {
  for (const [name, address] of Object.entries({ listen, control })) {
    if (address !== undefined && parseAddress(address) === undefined) {
      throw new UsageError(`--${name}: ${JSON.stringify(address)} is no host:port`);
    }
  }
  if (workers !== undefined && !/^([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-6])$/.test(workers)) {
    throw new UsageError(`--workers: ${JSON.stringify(workers)} is no whole number from 1 to 256`);
  }
}

function withOptions(config: Config, { listen, control, workers }: Overrides): Config {
  return {
    ...config,
    listen: listen ?? config.listen,
    workers: workers === undefined ? config.workers : Number(workers),
    control: { ...config.control, listen: control ?? config.control.listen },
  };
}

function demoYaml(target: string): string {
  return `
log: { level: warn }
control: { admin_token: "\${TOLLGATE_ADMIN_TOKEN:-}", plane_token: "\${TOLLGATE_PLANE_TOKEN:-}" }
apps:
  default: { guaranteed: 1000, burst: 2000 }
  demo: { guaranteed: 1, burst: 10 }
upstreams: { demo: { targets: ["${target}"] } }
routes: [{ path: /, upstream: demo }]
`;
}

function demoConfig(yaml: string): Config {
  const { config, problems } = readConfig(yaml, process.env);
  if (config !== undefined) return config;
  throw new Error(problems.map(({ path, reason }) => `${path}: ${reason}`).join("\n"));
}

function greeting({ gateway, control }: Listening): string {
  const [here, there] = [`localhost:${gateway?.port}`, `localhost:${control.port}`];
  return `tollgate is running, with its demo backend. Try:

  curl -i ${here}/api/hello                          what a request costs, in its headers
  curl -i -H 'X-App-Id: demo' ${here}/api/hello      an app with 10 tokens and 1 per second: 429 after a few
  curl -s ${here}/api/big?bytes=1048576 | wc -c      a megabyte is priced when it has passed
  curl -s ${there}/health/ready                       the control listener
  curl -s ${there}/metrics                            for Prometheus
${operatorHint()}
Ctrl-C ends it.
`;
}

function operatorHint(): string {
  const command = "node dist/cli/main.js";
  if ((process.env.TOLLGATE_ADMIN_TOKEN ?? "") === "") {
    return "\nWith TOLLGATE_ADMIN_TOKEN set, here and there, to 16 characters or more: tollgate status --watch, tollgate why demo\n";
  }
  return `  ${command} status --watch                   what it does, as it does it
  ${command} why demo                         why the app was refused\n`;
}

/** Once means in good order; twice means now. */
function untilTold(service: Service): Promise<void> {
  return new Promise((resolve, reject) => {
    let told = false;
    const stop = (signal: NodeJS.Signals) => {
      if (told) process.exit(1);
      told = true;
      service.log.info({ signal }, "stopping");
      service.stop().then(resolve, reject);
    };
    process.on("SIGHUP", () => {
      service.log.info({ signal: "SIGHUP" }, "reading the configuration again");
      service.reload().catch((error: unknown) => service.log.error({ err: error }, "the reload failed"));
    });
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
  });
}

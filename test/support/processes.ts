/** Starts servers that end with the test, even if the test is killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";

/** Kills the server when its parent dies, even by SIGKILL. */
const SETPRIV = "/usr/bin/setpriv";
const running = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

export interface ServerProcess {
  pid: number;
  /** Its latest output, for error messages. */
  output(): string;
  hasEnded(): boolean;
  signal(name: NodeJS.Signals): void;
  /** Sends a signal and waits until the process has ended. */
  end(name: NodeJS.Signals): Promise<void>;
}

export function startProcess(command: string, args: string[], cwd: string, env: NodeJS.ProcessEnv = {}): ServerProcess {
  const [program, ...rest] = existsSync(SETPRIV)
    ? [SETPRIV, "--pdeathsig", "KILL", command, ...args]
    : [command, ...args];
  const child = spawn(program as string, rest, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  const keep = (chunk: Buffer) => {
    printed = (printed + chunk.toString()).slice(-4_000);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  running.add(child);
  const ended = new Promise<void>((resolve) => {
    child.once("error", (error) => {
      printed += error.message;
      running.delete(child);
      resolve();
    });
    child.once("exit", () => {
      running.delete(child);
      resolve();
    });
  });
  return {
    pid: child.pid ?? -1,
    output: () => printed,
    hasEnded: () => !running.has(child),
    signal: (name) => child.kill(name),
    async end(name) {
      if (!running.has(child)) return;
      // A stopped process handles signals other than SIGKILL only after SIGCONT.
      child.kill(name);
      if (name !== "SIGKILL") child.kill("SIGCONT");
      await ended;
    },
  };
}

/** Waits until all have started. If one fails, stops the others. */
export async function startAll<T extends { stop(): unknown }>(starting: Promise<T>[]): Promise<T[]> {
  const ended = await Promise.allSettled(starting);
  const failed = ended.find((each) => each.status === "rejected");
  const started = ended.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  if (failed === undefined) return started;
  await Promise.all(started.map((each) => each.stop()));
  throw failed.reason;
}

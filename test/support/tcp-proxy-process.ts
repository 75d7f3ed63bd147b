/** The TCP proxy in a process of its own: it keeps its delay while the test blocks its own event loop. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { startTcpProxy } from "./tcp-proxy.js";

const program = new URL(import.meta.url).pathname;

export async function startTcpProxyProcess(targetPort: number) {
  const child = fork(program, [String(targetPort)], { execArgv: ["--import", "tsx"] });
  const [port] = (await once(child, "message")) as [number];
  return {
    port,
    /** Delay of every reply from now on. */
    async setDelay(ms: number): Promise<void> {
      const done = once(child, "message");
      child.send(ms);
      await done;
    },
    async stop(): Promise<void> {
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    },
  };
}

if (process.argv[1] === program && process.send !== undefined) {
  const proxy = await startTcpProxy(Number(process.argv[2]));
  process.on("message", (ms) => {
    proxy.delayMs = Number(ms);
    process.send?.("done");
  });
  process.on("disconnect", () => process.exit());
  process.send(proxy.port);
}

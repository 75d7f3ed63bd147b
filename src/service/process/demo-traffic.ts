/** Light traffic of several apps for the demo, so that a new user sees numbers move. */
import { Agent, request } from "node:http";

export interface DemoTrafficOptions {
  /** Of the gateway, for example http://localhost:8080. */
  url: string;
  /** Called for each response; status 0 stands for a failed request. */
  answered?(status: number): void;
}

interface DemoApp {
  id: string;
  /** Mean requests per second. */
  rate: number;
  /** The rate swings by this share, once per period. */
  swing: number;
  periodSeconds: number;
  method: string;
  path: string;
  bytes?: number;
}

/** `reports` regularly exceeds its limit, and the `import` of a nightly job uploads bodies. */
const demoApps: readonly DemoApp[] = [
  { id: "checkout", rate: 8, swing: 0.4, periodSeconds: 60, method: "GET", path: "/api/hello" },
  { id: "search", rate: 14, swing: 0.6, periodSeconds: 95, method: "GET", path: "/api/hello?q=shoes" },
  { id: "mobile", rate: 5, swing: 0.8, periodSeconds: 40, method: "GET", path: "/api/big?bytes=20000" },
  { id: "reports", rate: 4, swing: 1, periodSeconds: 50, method: "GET", path: "/api/big?bytes=150000" },
  { id: "import", rate: 1, swing: 0.9, periodSeconds: 70, method: "POST", path: "/api/echo", bytes: 8_000 },
];

const TICK_MS = 100;
/** A gateway that does not answer gets no further requests. */
const MOST_RUNNING = 64;

export function startDemoTraffic({ url, answered = () => {} }: DemoTrafficOptions) {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const due = new Map<string, number>();
  const started = performance.now();
  let running = 0;

  function send({ id, method, path, bytes = 0 }: DemoApp): void {
    running++;
    const call = request(`${url}${path}`, {
      agent,
      method,
      timeout: 10_000,
      headers: { "X-App-Id": id, "Content-Length": bytes },
    });
    const end = (status: number) => {
      running--;
      answered(status);
    };
    call.on("response", (response) => {
      response.resume();
      response.on("close", () => end(response.statusCode ?? 0));
    });
    call.on("timeout", () => call.destroy());
    call.on("error", () => end(0));
    call.end(bytes > 0 ? Buffer.alloc(bytes, "x") : undefined);
  }

  const timer = setInterval(() => {
    const seconds = (performance.now() - started) / 1000;
    for (const app of demoApps) {
      const wave = 1 + app.swing * Math.sin((2 * Math.PI * seconds) / app.periodSeconds);
      let requests = (due.get(app.id) ?? Math.random()) + (app.rate * wave * TICK_MS) / 1000;
      for (; requests >= 1; requests--) if (running < MOST_RUNNING) send(app);
      due.set(app.id, requests);
    }
  }, TICK_MS);

  return {
    stop(): void {
      clearInterval(timer);
      agent.destroy();
    },
  };
}

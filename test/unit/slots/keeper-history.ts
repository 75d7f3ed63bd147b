/** A random history of connects, ends, kills, pauses, disconnected processes and store failures in simulated time, checked from the view of the pods. */
import { createRandom } from "../../support/random.js";
import {
  createKeeperBench,
  type KeeperBench,
  LEASE_MS,
  limits,
  type Process,
  ROUTE,
  type WayMode,
} from "./keeper-bench.js";

const PODS = ["pod-1", "pod-2", "pod-3"];
const MOST_PER_POD = 2;
const PROCESSES = 3;
/** Within this time all running processes have recovered after the store lost its state. No new process starts in it. */
const GRACE_MS = 4_000;

export interface HistoryResult {
  steps: Record<string, number>;
  admitted: number;
  closed: number;
}

interface Actor extends Process {
  paused: boolean;
  /** When it was last resumed, or could reach the store again. */
  backAt: number;
  /** It may not have renewed its connections since the store lost its state. */
  untold: boolean;
}

/** Throws if a guarantee is violated. All routes lead to the same pods. */
export async function playHistory(seed: number, length: number, routes: string[] = [ROUTE]): Promise<HistoryResult> {
  const random = createRandom(seed);
  const below = (most: number) => Math.floor(random() * most);
  const route = limits({ maxPerPod: MOST_PER_POD });
  const bench = createKeeperBench();
  const actors: Actor[] = [];
  const steps: Record<string, number> = {};
  let born = 0;
  let admitted = 0;
  let closed = 0;
  let forgotAt = Number.NEGATIVE_INFINITY;

  const start = (): Actor =>
    Object.assign(bench.start(`p${++born}`, { random, routes: new Map(routes.map((name) => [name, route])) }), {
      ...{ paused: false, backAt: Number.NEGATIVE_INFINITY, untold: false },
    });
  for (let i = 0; i < PROCESSES; i++) actors.push(start());
  const actor = () => actors[below(actors.length)]!;

  const acts: [weight: number, name: string, act: () => Promise<void> | void][] = [
    [40, "connect", () => connect(actor())],
    [18, "end", () => end(actor())],
    [14, "wait", () => pass(below(2_000))],
    [3, "wait long", () => pass(below(2 * LEASE_MS))],
    [4, "pause", () => pauseOne(actor())],
    [6, "resume", () => resumeOne(actor())],
    [3, "kill", kill],
    [6, "cut off", () => cutOff(actor())],
    [routes.length > 1 ? 6 : 0, "cut off from a route", () => cutOffRoute(actor())],
    [8, "reach", () => setMode(actor(), "up")],
    [2, "store stops", () => setModes(random() < 0.5 ? "hanging" : "late")],
    [4, "store goes on", () => setModes("up")],
    [1, "store forgets", forget],
  ];
  const weights = acts.reduce((sum, [weight]) => sum + weight, 0);

  function connect(one: Actor): void {
    if (one.paused) return;
    const pods = PODS.filter(() => random() < 0.7);
    if (pods.length === 0) return;
    void one.connect(pods, `app-${below(2)}`, routes[below(routes.length)]!).then((verdict) => {
      if (verdict.allowed) admitted++;
    });
  }

  function end(one: Actor): void {
    if (one.paused) return;
    const ids = [...one.open.keys()];
    one.end(ids[below(ids.length)] ?? "");
  }

  function pauseOne(one: Actor): void {
    if (one.paused) return;
    leaves(one);
    one.paused = true;
    one.pause();
  }

  async function resumeOne(one: Actor): Promise<void> {
    if (!one.paused) return;
    one.paused = false;
    one.backAt = bench.clock.now();
    await one.resume();
  }

  async function kill(): Promise<void> {
    if (bench.clock.now() - forgotAt < GRACE_MS) return;
    const at = below(actors.length);
    const [gone] = actors.splice(at, 1, start());
    closed += gone?.closed.length ?? 0;
    gone?.kill();
  }

  function setMode(one: Actor, mode: WayMode): void {
    if (mode !== "up") leaves(one);
    else if (!reachesStore(one)) one.backAt = bench.clock.now();
    one.way.mode = mode;
    if (mode === "up") one.way.hanging = new Set();
  }

  function cutOffRoute(one: Actor): void {
    leaves(one);
    one.way.hanging = new Set([routes[below(routes.length)]!]);
  }

  function setModes(mode: WayMode): void {
    for (const one of actors) setMode(one, mode);
  }

  const modes: WayMode[] = ["refusing", "hanging", "deaf", "late"];
  function cutOff(one: Actor): void {
    setMode(one, modes[below(modes.length)]!);
  }

  function forget(): void {
    bench.wipe();
    forgotAt = bench.clock.now();
    for (const one of actors) if (!isHere(one) || forgotAt - one.backAt < GRACE_MS) one.untold = true;
  }

  async function pass(ms: number): Promise<void> {
    for (let left = ms; left > 0; left -= 50) {
      await bench.clock.advance(Math.min(left, 50));
      check();
    }
  }

  const reachesStore = ({ way }: Actor) => way.mode === "up" && (way.hanging?.size ?? 0) === 0;
  const isHere = (one: Actor) => !one.paused && reachesStore(one);

  /** Before it has renewed its connections at a store that lost its state. */
  function leaves(one: Actor): void {
    if (isHere(one) && bench.clock.now() - forgotAt < GRACE_MS) one.untold = true;
  }

  /**
   * A process that runs, reaches the store and has finished its recovery knows which connections it may serve. One that could
   * not reach the store when it lost its state may still report connections whose slots others have taken, or learn that it is
   * too late. Until it has had the time for that, both connections may be served.
   */
  function isSure(one: Actor): boolean {
    if (!isHere(one)) return false;
    if (bench.clock.now() - Math.max(forgotAt, one.backAt) >= GRACE_MS) one.untold = false;
    return !one.untold && one.keeper.stats().recovered;
  }

  function check(): void {
    const sure = actors.filter(isSure);
    for (const pod of PODS) {
      for (const name of routes) {
        const count = sure.reduce((sum, one) => sum + onPod(one, name, pod), 0);
        if (count > MOST_PER_POD) throw new Error(`${count} on ${name} and ${pod} at ${bench.clock.now()} ms`);
      }
    }
  }

  for (let i = 0; i < length; i++) {
    let at = random() * weights;
    const [, name, act] = acts.find(([weight]) => {
      at -= weight;
      return at < 0;
    })!;
    steps[name] = (steps[name] ?? 0) + 1;
    await act();
    await pass(5 + below(40));
    await checkStore(bench, routes);
  }

  // After the last fault: within a lease and a few beats the counts match the open connections.
  for (const one of actors) {
    setMode(one, "up");
    await resumeOne(one);
  }
  await pass(LEASE_MS + 5_000);
  for (const name of routes) {
    const counts = await bench.slots(name).counts(PODS, LEASE_MS);
    for (const pod of PODS) {
      const live = actors.reduce((sum, one) => sum + onPod(one, name, pod), 0);
      const booked = counts.perPod.get(pod);
      if (live !== booked) throw new Error(`${live} connections live on ${name} and ${pod}, but ${booked} are booked`);
    }
  }
  for (const one of actors) closed += one.closed.length;
  return { steps, admitted, closed };
}

const onPod = (one: Actor, route: string, pod: string) =>
  [...one.open.values()].filter((open) => open.route === route && open.pod === pod).length;

async function checkStore(bench: KeeperBench, routes: string[]): Promise<void> {
  for (const route of routes) {
    const { perPod } = await bench.slots(route).counts(PODS, LEASE_MS);
    for (const [pod, count] of perPod) if (count > MOST_PER_POD) throw new Error(`${count} slots booked on ${pod}`);
  }
}
